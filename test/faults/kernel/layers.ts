/** Each layer of isolation taken away in turn: the start refuses and names it, unless isolation was turned off by name. */

import { spawnSync } from 'node:child_process';
import { chmod, mkdir, rename, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { SessionOptions } from '../../../src/index.ts';
import { openings } from '../../support/kernels/host-processes.ts';
import { openSession, scratchFolder } from '../../support/kernels/session.ts';

/** [what the host cannot do, the layer that is named]. */
export type Missing = readonly [without: string, layer: string];

export function refusals(missing: readonly Missing[]): void {
  test.each(missing)(
    'without %s nothing starts, and %s is named; with the sandbox off it does',
    async (without, layer) => {
      const dataDir = await scratchFolder();
      const sessions: SessionOptions[] = [
        { dataDir },
        { dataDir, sandbox: { cgroup: 'if-available' } },
        { dataDir, sandbox: 'off' },
        { dataDir, executor: 'subprocess' },
      ];
      const [on, lenient, off, named] = await openings({ sessions }, { without });
      expect(on).toMatchObject({ code: 'SANDBOX_UNAVAILABLE', layer, message: expect.stringContaining(layer) });
      // Whoever chose no executor is told of the others; none is taken in place of it.
      expect(on?.message).toMatch(/executor: "container".*executor: "in-process" runs trusted code/);
      expect(named).toMatchObject({ code: 'SANDBOX_UNAVAILABLE', layer });
      expect(named?.message).not.toContain('alternatives');
      // Control groups alone may be done without, and only by name.
      if (layer === 'cgroup') expect(lenient).toMatchObject({ code: 'ok', value: 42 });
      else expect(lenient).toMatchObject({ code: 'SANDBOX_UNAVAILABLE', layer });
      expect(off).toMatchObject({ code: 'ok', value: 42 });
    },
  );
}

/** A sandbox that is made ahead fails alone, with nobody to tell: the session that comes in that moment has its own. */
export function refusedAtAnyMoment(): void {
  test('without pivot_root every session names the layer, also while the next sandbox is prepared', async () => {
    const dataDir = await scratchFolder();
    const pausesMs = Array.from({ length: 100 }, (_, number) => 10 + (number % 25));
    const told = await openings({ sessions: pausesMs.map(() => ({ dataDir })), pausesMs }, { without: 'pivot_root' });
    const expected = { code: 'SANDBOX_UNAVAILABLE', layer: 'namespaces' };
    expect(told).toEqual(pausesMs.map(() => expect.objectContaining(expected)));
  });
}

/** On a root host the folder cannot be shown as the code's own; on any other the host itself may not write to it. */
export function refusedFolders(): void {
  test('a folder that the code could not write to is named in the error, and nothing starts', async () => {
    const [dataDir, folder] = [await scratchFolder(), await scratchFolder()];
    if (process.getuid?.() === 0) {
      // A file system without idmapped mounts.
      expect(spawnSync('mount', ['-t', 'ramfs', 'none', folder]).status).toBe(0);
      onTestFinished(() => void spawnSync('umount', ['-l', folder]));
    } else {
      await chmod(folder, 0o555);
    }
    const named: SessionOptions[] = [{ cwd: folder }, { sandbox: { writable: [folder] } }];
    const sessions = [...named, { sandbox: { readable: [folder] } }].map((options) => ({ dataDir, ...options }));
    const [cwd, writable, readable] = await openings({ sessions });
    for (const refused of [cwd, writable]) {
      expect(refused).toMatchObject({ code: 'WORKSPACE_NOT_WRITABLE', message: expect.stringContaining(folder) });
    }
    expect(readable).toMatchObject({ code: 'ok', value: 42 });
  });
}

/** Code can do that if the parent folder is another session's. */
export function replacedFolders(): void {
  test.each(['a link', 'another folder', 'nothing'])(
    'a folder that has since become %s is not shown to code',
    async (what) => {
      const [outer, elsewhere] = [await scratchFolder(), await scratchFolder()];
      const [above, away] = [join(outer, 'a'), join(outer, 'away')];
      const cwd = join(above, 'b');
      await mkdir(cwd, { recursive: true });
      await mkdir(join(elsewhere, 'b'));
      for (const named of [{ cwd }, { sandbox: { readable: [cwd] } }, { sandbox: { writable: [cwd] } }]) {
        const session = await openSession({ agentKey: JSON.stringify(named), ...named });
        expect(await session.run('1 + 1')).toMatchObject({ value: 2 });
        await session.hibernate();
        await rename(above, away);
        if (what === 'a link') await symlink(elsewhere, above);
        if (what === 'another folder') await mkdir(cwd, { recursive: true });
        await expect(session.run('1')).rejects.toMatchObject({
          code: 'FOLDER_REPLACED',
          message: expect.stringContaining(cwd),
        });
        await rm(above, { recursive: true, force: true });
        await rename(away, above);
        expect(await session.run('1 + 1')).toMatchObject({ value: 2 });
      }
    },
  );
}

export const ANYWHERE: readonly Missing[] = [
  ['landlock', 'landlock'],
  ['landlock-off', 'landlock'],
  ['seccomp', 'seccomp'],
  ['no_new_privs', 'seccomp'],
  ['clone', 'namespaces'],
  ['mount', 'namespaces'],
  ['mount_setattr', 'namespaces'],
  ['pivot_root', 'namespaces'],
  ['capset', 'uid'],
  ['rlimits', 'rlimits'],
];
export const ROOT_HOST: readonly Missing[] = [
  ['namespaces', 'namespaces'],
  ['setresuid', 'uid'],
  ['setgroups', 'uid'],
  ['cgroup', 'cgroup'],
];
export const USERS_HOST: readonly Missing[] = [
  ['namespaces', 'userns'],
  ['userns', 'userns'],
];
