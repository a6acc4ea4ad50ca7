/** Packages and sources of any release of Debian, from the mirror that this machine's own apt uses, in a folder apart. */

import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { command } from './commands.ts';

const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';

/** A machine whose mirror is Debian's, and that has its keys. */
export const hasDebianArchive =
  existsSync(KEYRING) && existsSync('/usr/bin/apt-get') && /^ID=debian$/m.test(readFileSync('/etc/os-release', 'utf8'));

export class DebianArchive {
  readonly #folder: string;
  readonly #options: readonly string[];

  private constructor(folder: string) {
    this.#folder = folder;
    // Nothing counts as installed, so that packages come with all that they need.
    const settings = {
      'Dir::Etc::sourcelist': join(folder, 'sources.list'),
      'Dir::Etc::sourceparts': '-',
      'Dir::State': join(folder, 'state'),
      'Dir::State::status': '/dev/null',
      'Dir::Cache': join(folder, 'cache'),
      'APT::Install-Recommends': 'false',
      'Acquire::Languages': 'none',
    };
    this.#options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  }

  /** The folder must be there, and is the archive's alone. */
  static async open(folder: string, release: string): Promise<DebianArchive> {
    const archive = new DebianArchive(folder);
    for (const part of ['state/lists/partial', 'cache/archives/partial', 'sources']) {
      mkdirSync(join(folder, part), { recursive: true });
    }
    const refused: string[] = [];
    for (const address of await mirrors()) {
      const lines = ['deb', 'deb-src'].map((kind) => `${kind} [signed-by=${KEYRING}] ${address} ${release} main\n`);
      writeFileSync(join(folder, 'sources.list'), lines.join(''));
      try {
        await archive.#apt(['update', '-o', 'APT::Update::Error-Mode=any']);
        return archive;
      } catch (error) {
        refused.push(String(error));
      }
    }
    throw new Error(`Debian ${release} cannot be had from this machine's mirrors: ${refused.join('\n')}`);
  }

  /** The files of these packages, and of all that they need, laid out below a folder. None of their scripts runs. */
  async unpack(names: readonly string[], into: string): Promise<void> {
    await this.#apt(['install', '--yes', '--download-only', ...names]);
    for (const path of globSync(join(this.#folder, 'cache', 'archives', '*.deb'))) {
      await command(['dpkg-deb', '--extract', path, into]);
    }
  }

  /** What upstream has released, without Debian's changes: a folder for each. */
  async sources(names: readonly string[], into: string): Promise<void> {
    const cwd = join(this.#folder, 'sources');
    await this.#apt(['source', '--download-only', ...names], cwd);
    for (const path of globSync(join(cwd, '*.orig.tar.*'))) {
      if (!path.endsWith('.asc')) await command(['tar', '--extract', '--file', path, '--directory', into]);
    }
  }

  async #apt(words: readonly string[], cwd = this.#folder): Promise<void> {
    await command(['apt-get', '--quiet', ...this.#options, ...words], { cwd });
  }
}

/** Where this machine's packages come from; updates apart are no archive of another release. */
async function mirrors(): Promise<string[]> {
  const format = '$(RELEASE) $(REPO_URI)';
  const lines = (await command(['apt-get', 'indextargets', '--format', format, 'Created-By: Packages'])).split('\n');
  const found = lines.map((line) => /^[a-z]+ (\S+)$/.exec(line)?.[1]).filter((address) => address !== undefined);
  return [...new Set(found)];
}
