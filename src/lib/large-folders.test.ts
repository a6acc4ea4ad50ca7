import { mkdtempSync, writeFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { expectNoStall } from '../../test/support/servers/stalls.ts';
import { filesBelow, removeOwnTree } from './large-folders.ts';

async function scratch(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'cella-folders-'));
  onTestFinished(() => removeOwnTree(folder));
  return folder;
}

test('a folder is removed with read-only folders and links in it, but not what the links lead to', async () => {
  const folder = await scratch();
  const [kept, removed] = [join(folder, 'kept'), join(folder, 'removed')];
  await mkdir(join(removed, 'one', 'two'), { recursive: true });
  await mkdir(kept);
  for (const path of [kept, removed, join(removed, 'one', 'two')]) await writeFile(join(path, 'file'), '');
  await symlink(kept, join(removed, 'link'));
  await chmod(join(removed, 'one', 'two'), 0o555);
  await chmod(join(removed, 'one'), 0o000);
  await removeOwnTree(removed);
  expect(await readdir(folder)).toEqual(['kept']);
  expect(await readdir(kept)).toEqual(['file']);
});

test('what is gone is removed, also a file, also twice at once', async () => {
  const folder = await scratch();
  await writeFile(join(folder, 'file'), '');
  await removeOwnTree(join(folder, 'file'));
  await removeOwnTree(join(folder, 'file'));
  for (let number = 0; number < 100; number += 1) await writeFile(join(folder, `${number}`), '');
  await Promise.all([removeOwnTree(folder), removeOwnTree(folder)]);
  await expect(readdir(folder)).rejects.toThrow('ENOENT');
});

test('20,000 files stop the event loop neither while they are listed nor while they are removed', {
  timeout: 120_000,
}, async () => {
  const parent = await scratch();
  const made = Array.from({ length: 2 }, () => {
    const folder = mkdtempSync(join(parent, 'full-'));
    for (let number = 0; number < 20_000; number += 1) writeFileSync(join(folder, `file-${number}`), '');
    return folder;
  });
  await expectNoStall(async () => {
    let count = 0;
    for await (const _ of filesBelow(parent)) count += 1;
    expect(count).toBeGreaterThanOrEqual(20_000);
    await removeOwnTree(made.pop() ?? '');
  });
});
