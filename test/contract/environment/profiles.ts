/** Files of a profile, which the host writes into a workspace, while code of that workspace wants them elsewhere. */

import { once } from 'node:events';
import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, unlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Environment, writeMissingFiles } from '../../../src/environments/environment.ts';
import { LocalEnvironment } from '../../../src/environments/local/local-environment.ts';
import { SandboxEnvironment } from '../../../src/environments/sandbox-environment.ts';
import { openAgentSandbox } from '../../../src/session/agent-sandbox.ts';
import { folderFor, SWAPPING } from '../../server/files/hostile.ts';
import { type Opened, python, type Where } from '../../support/kernels/environments.ts';
import { scratchFolder } from '../../support/kernels/session.ts';

/** A folder of the host that everybody may write to, and who writes there is found out. */
async function outside(): Promise<{ readonly folder: string; check(): void }> {
  const top = await scratchFolder();
  chmodSync(top, 0o755);
  const folder = join(top, 'b');
  mkdirSync(folder);
  chmodSync(folder, 0o777);
  writeFileSync(join(folder, 'canary'), 'the canary');
  const check = () => {
    expect(readdirSync(folder)).toEqual(['canary']);
    expect(readFileSync(join(folder, 'canary'), 'utf8')).toBe('the canary');
  };
  return { folder, check };
}

/** In `outer/a/b`, and all of `outer` may be written by the code. */
async function openIn({ kind, engine }: Where, outer: string): Promise<Environment> {
  const [cwd, dataDir] = [join(outer, 'a', 'b'), await scratchFolder()];
  if (kind === 'local') {
    const [home, app] = [join(dataDir, 'home'), join(dataDir, 'app')];
    for (const folder of [home, app]) mkdirSync(folder);
    return await LocalEnvironment.create({ kind, workspace: cwd, home, app });
  }
  const container = kind === 'docker' && engine !== undefined ? ({ executor: 'container', engine } as const) : {};
  const session = { dataDir, cwd, sandbox: { writable: [outer] }, ...container };
  const folders = { node: dirname(process.execPath) };
  return await SandboxEnvironment.create({ open: () => openAgentSandbox({ session, folders }) });
}

/** As another process that has the handle. */
async function attach(environment: Environment): Promise<Environment> {
  const handle = JSON.parse(JSON.stringify(environment.handle()));
  if (environment.kind === 'local') return await LocalEnvironment.attach(handle);
  const open = () => Promise.reject(new Error('no program was started'));
  return await SandboxEnvironment.attach(handle, { open });
}

export function environmentProfilesContract(opened: () => Opened): void {
  const put = async (environment: Environment, paths: readonly string[]) => {
    const files = Object.fromEntries(paths.map((path) => [path, 'from a profile']));
    return (await writeMissingFiles(environment, { files })).map(({ path, ok }) => [path, ok]);
  };

  describe('files of a profile', () => {
    it('do not follow links that lead out, and keep what has their names', async () => {
      const { environment } = opened();
      const { folder, check } = await outside();
      const script = `
import os, sys
os.makedirs("linked/in")
os.symlink(sys.argv[1], "linked/out")
os.symlink(sys.argv[1] + "/canary", "linked/file")
os.symlink(sys.argv[1] + "/new", "linked/dangling")
os.symlink("in", "linked/inside")`;
      expect(await python(environment, script, { args: [folder] })).toMatchObject({ stderr: '' });
      const refused = ['out/canary', 'out/new', 'out/deep/new', 'file/new', 'dangling/new'];
      const paths = [...refused, 'file', 'dangling', 'inside/new'].map((path) => `linked/${path}`);
      expect(await put(environment, paths)).toEqual([
        ...refused.map((path) => [`linked/${path}`, false]),
        ['linked/inside/new', true],
      ]);
      expect(await environment.readFile('linked/in/new')).toBe('from a profile');
      check();
    });

    it('stay in the workspace while code swaps folders and links', async () => {
      const { environment } = opened();
      const { folder, check } = await outside();
      const script = `${SWAPPING}
import sys, time
os.makedirs("swapped/d/in")
os.symlink(sys.argv[1], "swapped/l")
swapping([("swapped/d", "swapped/l")], ".swap")
print("ready", flush=True)
while os.path.exists(".swap"): time.sleep(0.01)`;
      const { stdout, exited } = await environment.exec(['python3', '-c', script, folder]);
      await once(stdout, 'data');
      const ways = new Set<unknown>();
      for (let round = 0; round < 40; round++) {
        const paths = ['d/canary', 'l/canary', `d/new-${round}`, `l/new-${round}`, `d/in/new-${round}`];
        const written = await put(
          environment,
          paths.map((path) => `swapped/${path}`),
        );
        for (const [, ok] of written) ways.add(ok);
        check();
      }
      await python(environment, 'import os\nos.unlink(".swap")');
      await exited;
      check();
      expect(ways).toEqual(new Set([true, false]));
    });

    it('go nowhere where a link, or another folder, stands in the place of a folder above the workspace', async () => {
      const { folder, check } = await outside();
      const outer = await folderFor(1000, 'a', 'a/b');
      await using environment = await openIn(opened().where, outer);
      expect(await put(environment, ['first'])).toEqual([['first', true]]);
      const swap = `
import os, sys
outer, outside = sys.argv[1:]
os.rename(outer + "/a", outer + "/away")
os.makedirs(outer + "/other/b")
os.symlink(outside, outer + "/a")`;
      expect(await python(environment, swap, { args: [outer, dirname(folder)] })).toMatchObject({ stderr: '' });
      const below = ['x', 'new/x'];
      const refused = below.map((path) => [path, false]);
      const replaced = { code: 'FOLDER_REPLACED' };
      expect(await put(environment, below)).toEqual(refused);
      await expect(attach(environment)).rejects.toMatchObject(replaced);
      check();
      unlinkSync(join(outer, 'a'));
      renameSync(join(outer, 'other'), join(outer, 'a'));
      expect(await put(environment, below)).toEqual(refused);
      await expect(attach(environment)).rejects.toMatchObject(replaced);
      expect(readdirSync(join(outer, 'a', 'b'))).toEqual([]);
      // What is there again is used again.
      renameSync(join(outer, 'a'), join(outer, 'other'));
      renameSync(join(outer, 'away'), join(outer, 'a'));
      expect(await put(environment, below)).toEqual(below.map((path) => [path, true]));
      expect(await (await attach(environment)).readFile('x')).toBe('from a profile');
    });
  });
}
