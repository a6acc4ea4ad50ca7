import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { detectLayers, layerNames } from './detect.ts';

const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';

test('every layer is reported, with a fix exactly if it is missing, and nothing is left behind', async () => {
  const detection = await detectLayers(python);
  expect(detection.layers.map(({ name }) => name)).toEqual([...layerNames]);
  expect(detection.root).toBe(process.getuid?.() === 0);
  for (const { available, detail, fix } of detection.layers) {
    expect(detail).not.toBe('');
    // The details quote the system. The name of an exception means that the trial itself is wrong.
    expect(detail).not.toMatch(/^\w+Error: /);
    expect(fix === '').toBe(available);
  }
  expect((await readdir(tmpdir())).filter((name) => name.startsWith('cella-detect-'))).toEqual([]);
}, 30_000);

test('a missing program and one with other output are distinguished', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'cella-detector-'));
  try {
    await expect(detectLayers(join(folder, 'none'))).rejects.toMatchObject({ code: 'PYTHON_NOT_FOUND' });
    const path = join(folder, 'python');
    await writeFile(path, '#!/bin/sh\necho "{}"\n');
    await chmod(path, 0o755);
    await expect(detectLayers(path)).rejects.toMatchObject({ code: 'TEMPLATE_FAILED' });
    await writeFile(path, '#!/bin/sh\necho gone wrong >&2\nexit 1\n');
    await expect(detectLayers(path)).rejects.toThrow('gone wrong');
  } finally {
    await rm(folder, { recursive: true });
  }
});
