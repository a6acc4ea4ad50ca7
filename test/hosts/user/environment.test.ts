/** A sandbox environment on the host that these tests run on. */

import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { removeFolder } from '../../../src/environments/files/remove-tree.ts';
import { environmentContract } from '../../contract/environment/environment.ts';
import { openEnvironment, python } from '../../support/kernels/environments.ts';
import { scratchFolder } from '../../support/kernels/session.ts';

describe('a sandbox environment', () => {
  environmentContract(async () => ({ kind: 'sandbox', folder: await scratchFolder() }));

  it('shows no file of the host if code that runs as its user has replaced the workspace by a link', async () => {
    await using environment = await openEnvironment({ kind: 'sandbox', folder: await scratchFolder() });
    const swap = 'import os\nos.rename("/agent/workspace", "/agent/moved")\nos.symlink("/etc", "/agent/workspace")';
    // A root host keeps it from even that.
    const { exit } = await python(environment, swap);
    expect(exit.code === 0).toBe(process.getuid?.() !== 0);
    await expect(environment.readFile('passwd')).rejects.toMatchObject({ name: 'CellaError' });
    await expect(environment.writeFile('passwd/x', 'x')).rejects.toMatchObject({ name: 'CellaError' });
    expect(await environment.listFiles('').catch(() => [])).toEqual([]);
  });
});

it('a folder is removed with everything in it, even if code has removed its permissions', async () => {
  const top = join(await scratchFolder(), 'top');
  // More levels than are held open at a time.
  const folders = Array.from({ length: 140 }, (_, level) => join(top, 'd/'.repeat(level)));
  mkdirSync(folders.at(-1) ?? top, { recursive: true });
  for (const [level, folder] of folders.entries()) writeFileSync(join(folder, `${level}`), '');
  // The innermost ones first, as long as there is a way to them.
  for (const [at, folder] of folders.toReversed().entries()) {
    chmodSync(folder, at === 0 ? 0o300 : at % 2 === 0 ? 0o500 : 0o000);
  }
  await removeFolder(top);
  expect(existsSync(top)).toBe(false);
});
