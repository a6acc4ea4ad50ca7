import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { FileVersions } from './text-files.ts';

test('the versions of files that are gone are forgotten', { timeout: 60_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'cella-texts-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const versions = new FileVersions();
  const files = ['a', 'b', 'c'].map((name) => ({ name, path: join(folder, name) }));
  for (const { path } of files) await writeFile(path, 'x');
  const allKnown = async () => {
    for (const { path } of files) await versions.of(path);
    expect(versions.size).toBe(3);
  };
  // Only the versions of files that have not changed for a while are kept.
  await vi.waitFor(allKnown, { timeout: 30_000, interval: 100 });
  versions.forgetOthers(files);
  expect(versions.size).toBe(3);
  versions.forgetOthers(files.slice(1));
  expect(versions.size).toBe(2);
});
