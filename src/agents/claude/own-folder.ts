/**
 * What sets Claude's program up, in a folder of one turn. It lies outside of the session's home: code of the kernel
 * writes there, and could put variables, hooks and servers into what the program reads. Conversations alone stay in the home.
 */

import { access, constants, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CellaError } from '../../protocol/errors.ts';
import type { AgentSetup } from '../contract.ts';
import { CONVERSATIONS, conversationsDir, makeFolder } from './home-files.ts';

/** Also in confine.py. */
const ARGV_WORD = 'cella-argv';

export interface OwnFolder extends AsyncDisposable {
  /** The program's own: empty, but for a link to the conversations. */
  readonly configDir: string;
  /** For the skills and commands of the profile. */
  readonly profileDir: string;
  /** What its commands begin with, by which they have the session's home. */
  readonly prelude: string;
}

/**
 * Runs each command, hook and stdio server. It lies beside the runner, or beside this file in a checkout: in an environment
 * that folder is read-only. A command that could change it would run the next one unconfined.
 */
export const confineScript = fileURLToPath(new URL('confine.py', import.meta.url));

/** The home of the program itself. Shells and git run what they find in a home, and nobody can put anything in here. */
export const NO_HOME = '/dev/null';

/** A program and its arguments as one that takes them: the program would join them with spaces, and a shell would take them apart. */
export function confinedArgv(argv: readonly string[]): { readonly command: string; readonly args: readonly string[] } {
  return { command: ARGV_WORD, args: [Buffer.from(argv.join('\0')).toString('hex')] };
}

/** In the folder for what is passing, which every enclosure has for itself. */
export async function makeOwnFolder(setup: Pick<AgentSetup, 'homeDir'>): Promise<OwnFolder> {
  await requireScript();
  const conversations = conversationsDir(setup);
  await makeFolder(setup.homeDir, conversations);
  const folder = await mkdtemp(join(tmpdir(), 'cella-claude-'));
  const [configDir, profileDir] = [join(folder, 'config'), join(folder, 'profile')];
  const prelude = join(folder, 'prelude.sh');
  await Promise.all([mkdir(configDir), writeFile(prelude, `export HOME=${quoted(setup.homeDir)}\n`)]);
  await symlink(conversations, join(configDir, CONVERSATIONS));
  // What a program that was killed has left half written goes with the rest.
  const remove = () => rm(folder, { recursive: true, force: true, maxRetries: 3 });
  return { configDir, profileDir, prelude, [Symbol.asyncDispose]: remove };
}

/** The program would tell each command's failure to the model alone. */
async function requireScript(): Promise<void> {
  await access(confineScript, constants.X_OK).catch((cause) => {
    const message = `The script that confines an agent's commands cannot be run: ${confineScript}.`;
    throw new CellaError('AGENT_FAILED', message, {
      cause,
      advice: 'Install Cella again; in a checkout: npm run build.',
    });
  });
}

/** One word for a shell, whatever is in it. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
