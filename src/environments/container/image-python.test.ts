import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { removeUnused, wheelPlatforms } from './image-python.ts';

describe('wheelPlatforms', () => {
  it('counts down from the installed glibc, with the old names in place', () => {
    expect(wheelPlatforms('x86_64', { name: 'glibc', version: [2, 18] })).toEqual([
      'manylinux_2_18_x86_64',
      'manylinux_2_17_x86_64',
      'manylinux2014_x86_64',
      'manylinux_2_16_x86_64',
      'manylinux_2_15_x86_64',
      'manylinux_2_14_x86_64',
      'manylinux_2_13_x86_64',
      'manylinux_2_12_x86_64',
      'manylinux2010_x86_64',
      'manylinux_2_11_x86_64',
      'manylinux_2_10_x86_64',
      'manylinux_2_9_x86_64',
      'manylinux_2_8_x86_64',
      'manylinux_2_7_x86_64',
      'manylinux_2_6_x86_64',
      'manylinux_2_5_x86_64',
      'manylinux1_x86_64',
      'linux_x86_64',
    ]);
  });

  it('begins with manylinux2014 on architectures without earlier standards', () => {
    expect(wheelPlatforms('aarch64', { name: 'glibc', version: [2, 18] })).toEqual([
      'manylinux_2_18_aarch64',
      'manylinux_2_17_aarch64',
      'manylinux2014_aarch64',
      'linux_aarch64',
    ]);
  });

  it('names no wheel of glibc for musl', () => {
    expect(wheelPlatforms('x86_64', { name: 'musl', version: [1, 2] })).toEqual([
      'musllinux_1_2_x86_64',
      'musllinux_1_1_x86_64',
      'musllinux_1_0_x86_64',
      'linux_x86_64',
    ]);
  });

  it('names only the machine if no wheel tag fits its library', () => {
    expect(wheelPlatforms('x86_64', { name: 'glibc', version: [3, 0] })).toEqual(['linux_x86_64']);
  });
});

it('removes copies of the kernel that were unused for long, and no other', async () => {
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
