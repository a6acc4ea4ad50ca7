import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { holdFolder } from './held-folder.ts';
import { replaceText } from './home-files.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cella-home-files-'));
  for (const name of ['home', 'outside']) mkdirSync(join(folder, name));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

test('a link that comes into the place of a folder that is held is not written through', async () => {
  const [home, outside] = [join(folder, 'home'), join(folder, 'outside')];
  await using held = await holdFolder(home, ['.claude', 'projects']);
  renameSync(join(home, '.claude', 'projects'), join(home, 'away'));
  symlinkSync(outside, join(home, '.claude', 'projects'));
  await writeFile(held.path('x.jsonl'), 'text');
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
