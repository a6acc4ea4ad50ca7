import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import type * as promises from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { replaceText } from './home-files.ts';

/** Called at the last moment before a file is made. */
let meanwhile = () => {};

vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof promises>();
  const open: typeof promises.open = (path, flags, mode) => {
    if (mode !== undefined) meanwhile();
    return real.open(path, flags, mode);
  };
  const writeFile: typeof promises.writeFile = (...words) => {
    meanwhile();
    return real.writeFile(...words);
  };
  return { ...real, open, writeFile };
});

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cella-home-files-'));
  for (const name of ['home', 'outside']) mkdirSync(join(folder, name));
});
afterEach(() => {
  meanwhile = () => {};
  rmSync(folder, { recursive: true });
});

test('a link that comes into the place of a folder after it was looked at is not written through', async () => {
  const [home, outside] = [join(folder, 'home'), join(folder, 'outside')];
  const above = join(home, '.claude', 'projects');
  meanwhile = () => {
    meanwhile = () => {};
    renameSync(above, join(home, 'away'));
    symlinkSync(outside, above);
  };
  await replaceText(home, join(above, 'x.jsonl'), 'text');
  expect(readdirSync(outside)).toEqual([]);
  expect(readFileSync(join(home, 'away', 'x.jsonl'), 'utf8')).toBe('text');
});

test('folders are made on the way, and never through a link', async () => {
  const [home, outside] = [join(folder, 'home'), join(folder, 'outside')];
  await replaceText(home, join(home, 'a', 'b', 'x'), 'first');
  await replaceText(home, join(home, 'a', 'b', 'x'), 'second');
  expect(readFileSync(join(home, 'a', 'b', 'x'), 'utf8')).toBe('second');
  expect(readdirSync(join(home, 'a', 'b'))).toEqual(['x']);
  symlinkSync(outside, join(home, 'out'));
  const refusal = { code: 'CONVERSATION_NOT_FOUND' };
  await expect(replaceText(home, join(home, 'out', 'deeper', 'x'), 'text')).rejects.toMatchObject(refusal);
  await expect(replaceText(home, join(outside, 'x'), 'text')).rejects.toMatchObject(refusal);
  expect(readdirSync(outside)).toEqual([]);
});
