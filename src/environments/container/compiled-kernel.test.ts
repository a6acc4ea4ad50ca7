import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { removeUnused } from './compiled-kernel.ts';

it('removes copies of the kernel that nobody has used for long, and no other', async () => {
  const parent = await mkdtemp(join(tmpdir(), 'cella-copies-'));
  onTestFinished(() => rm(parent, { recursive: true }));
  const longAgo = new Date(Date.now() - 40 * 24 * 3_600_000);
  for (const name of ['old', 'old-in-use', 'new']) {
    await mkdir(join(parent, name, 'kernel'), { recursive: true });
    await writeFile(join(parent, name, 'facts.json'), '{}');
    if (name !== 'new') await utimes(join(parent, name), longAgo, longAgo);
  }
  await removeUnused(parent, new Set([join(parent, 'old-in-use')]));
  expect((await readdir(parent)).sort()).toEqual(['new', 'old-in-use']);
  await removeUnused(join(parent, 'nothing'), new Set());
});
