/** A sandbox environment on the host that these tests run on. */

import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { removeFolder } from '../../src/environments/files/remove-folder.ts';
import { environmentContract } from '../contract/environments.ts';
import { openEnvironment, python } from '../support/environments.ts';
import { scratchFolder } from '../support/session.ts';

describe('a sandbox environment', () => {
  environmentContract(async () => ({ kind: 'sandbox', folder: await scratchFolder() }));

  it('shows no file of the host where code that runs as its user has put a link in the place of the workspace', async () => {
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

it.each([0o000, 0o300, 0o500])('a folder is removed with all in it that code has closed (%o)', async (mode) => {
  const top = join(await scratchFolder(), 'top');
  // More levels than are held open at a time.
  const folders = Array.from({ length: 80 }, (_, level) => join(top, 'd/'.repeat(level + 1)));
  for (const folder of folders) {
    mkdirSync(join(folder, 'beside'), { recursive: true });
    writeFileSync(join(folder, 'beside', 'file'), '');
    chmodSync(join(folder, 'beside'), mode);
  }
  for (const folder of [...folders.toReversed(), top]) chmodSync(folder, mode);
  await removeFolder(top);
  expect(existsSync(top)).toBe(false);
});
