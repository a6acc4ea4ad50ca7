import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { FileStorage } from './file/file-storage.ts';
import { OverlayTextStore } from './views.ts';

async function layers() {
  const folder = mkdtempSync(join(tmpdir(), 'cella-layers-'));
  const storage = await FileStorage.open(folder);
  onTestFinished(async () => {
    await storage.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const own = storage.scope('ann').skills;
  return { own, shared: storage.skills, both: new OverlayTextStore(own, storage.skills) };
}

test('the user’s own take precedence over shared ones of the same name, and both are listed by name', async () => {
  const { own, shared, both } = await layers();
  for (const name of ['b', 'c']) await shared.put(name, `shared ${name}`);
  for (const name of ['a', 'b']) expect(await both.put(name, `own ${name}`, { ifAbsent: true })).toBe(true);
  expect((await both.list()).map(({ text, shared: isShared }) => [text, isShared])).toEqual([
    ['own a', undefined],
    ['own b', undefined],
    ['shared c', true],
  ]);
  expect(await both.get('c')).toMatchObject({ text: 'shared c', shared: true });
  expect((await own.list()).map(({ name }) => name)).toEqual(['a', 'b']);
});

test('shared ones cannot be changed or deleted', async () => {
  const { shared, both } = await layers();
  await shared.put('c', 'shared');
  expect(await both.delete('c')).toBe(false);
  await both.put('c', 'own');
  expect(await both.delete('c')).toBe(true);
  expect(await both.get('c')).toMatchObject({ text: 'shared', shared: true });
  expect((await shared.get('c'))?.text).toBe('shared');
});

test('a change of either changes the version of both', async () => {
  const { own, shared, both } = await layers();
  const versions = [await both.version()];
  for (const store of [own, shared]) {
    await store.put('x', 'y');
    versions.push(await both.version());
  }
  expect(new Set(versions).size).toBe(3);
});
