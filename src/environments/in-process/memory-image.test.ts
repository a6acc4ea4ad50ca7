import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { MemoryImageCache } from './memory-image.ts';

let dataDir = '';
const folder = () => join(dataDir, 'cache', 'pyodide');
const body = (text: string) => Buffer.from(text.repeat(100));

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'cella-cache-'));
});
afterEach(async () => await rm(dataDir, { recursive: true }));

/** Makes an image look as if it was last used this many minutes ago. */
async function age(key: string, minutes: number): Promise<void> {
  const then = new Date(Date.now() - minutes * 60_000);
  await utimes(join(folder(), `${key}.snapshot`), then, then);
}

it('keeps the images of two hosts that preload different modules', async () => {
  const cache = new MemoryImageCache(dataDir);
  await cache.put('plain', body('p'));
  await cache.put('with-wave', body('w'));
  expect(await cache.take('plain')).toEqual(body('p'));
  expect(await cache.take('with-wave')).toEqual(body('w'));
});

it('keeps a limited number, and removes the least recently used', async () => {
  const cache = new MemoryImageCache(dataDir);
  for (const [index, key] of ['a', 'b', 'c', 'd'].entries()) {
    await cache.put(key, body(key));
    await age(key, 40 - index);
  }
  // Now the oldest is the most recently used.
  await cache.take('a');
  await cache.put('e', body('e'));
  expect((await readdir(folder())).toSorted()).toEqual(['a', 'c', 'd', 'e'].map((key) => `${key}.snapshot`));
});

it('keeps a new image even if the clock says that the others are newer', async () => {
  const cache = new MemoryImageCache(dataDir);
  for (const key of ['a', 'b', 'c', 'd']) {
    await cache.put(key, body(key));
    await age(key, -10);
  }
  await cache.put('e', body('e'));
  expect(await cache.take('e')).toEqual(body('e'));
  expect(await readdir(folder())).toHaveLength(4);
});

it('does not use a truncated or changed one', async () => {
  const cache = new MemoryImageCache(dataDir);
  await cache.put('a', body('a'));
  await writeFile(join(folder(), 'a.snapshot'), 'x', { flag: 'a' });
  expect(await cache.take('a')).toBeUndefined();
  expect(await cache.take('none')).toBeUndefined();
});
