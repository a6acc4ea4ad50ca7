/** Deps for tests: an index of their own with tiny wheels, a closed data folder, real pip. */

import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { onTestFinished } from 'vitest';
import { removeFolder } from '../../../src/environments/files/remove-tree.ts';
import { Deps, type DepsContext } from '../../../src/namespaces/deps/deps-namespace.ts';
import { PackageSets, type PackageSetsOptions } from '../../../src/namespaces/deps/package-sets.ts';
import type { DepsStore } from '../../../src/storage/contract.ts';
import { memoryDeps } from './deps-store.ts';
import { type PackageIndex, startIndex } from './package-index.ts';
import { makeWheel } from './wheels.ts';

const run = promisify(execFile);

export const PYTHON = process.env.CELLA_PYTHON ?? '/usr/bin/python3';

export interface Place {
  /** For the test alone, and open to all. */
  readonly folder: string;
  readonly wheels: string;
  readonly index: PackageIndex;
  /** Of sets in this place, which ask this index unless told otherwise. */
  readonly options: PackageSetsOptions;
}

/** The index has `tiny-a` 1.0.0, which needs `tiny-b>=2`, and `tiny-b` 1.0.0 and 2.1.0. */
export async function openPlace(): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), 'cella-deps-'));
  onTestFinished(() => removeFolder(folder));
  await chmod(folder, 0o755);
  const wheels = join(folder, 'wheels');
  await makeWheel(wheels, 'tiny-a', { requires: ['tiny-b>=2'] });
  await makeWheel(wheels, 'tiny-b');
  await makeWheel(wheels, 'tiny-b', { version: '2.1.0' });
  const index = await startIndex(wheels);
  onTestFinished(() => index.close());
  const data = join(folder, 'data');
  await mkdir(data, { mode: 0o700 });
  // Without PATH no uv of the machine is found, so that it is pip that is tested.
  const options = { folder: join(data, 'packages'), python: PYTHON, source: { index: index.url }, searchPath: '' };
  return { folder, wheels, index, options };
}

export interface Opened extends Place {
  readonly deps: Deps;
  readonly sets: PackageSets;
  readonly store: DepsStore;
  readonly context: DepsContext;
  readonly progress: string[];
}

export interface OpenOptions extends Partial<PackageSetsOptions> {
  readonly place?: Place;
  readonly store?: DepsStore;
  readonly allowRuntime?: boolean;
  readonly signal?: AbortSignal;
}

export async function openDeps(options: OpenOptions = {}): Promise<Opened> {
  const { place = await openPlace(), store = memoryDeps(), allowRuntime = true, signal, ...others } = options;
  const sets = new PackageSets({ ...place.options, ...others });
  onTestFinished(() => sets.close());
  const progress: string[] = [];
  const context = {
    signal: signal ?? new AbortController().signal,
    progress: (text: string) => void progress.push(text),
  };
  return { ...place, deps: new Deps({ store, sets, allowRuntime }), sets, store, context, progress };
}

/** What a Python with this set on its path prints. */
export async function pythonWith(sets: PackageSets, set: string | null, code: string): Promise<string> {
  const path = join(await sets.folder(), set ?? 'none');
  const program = `import sys\nsys.dont_write_bytecode = True\nsys.path.insert(0, ${JSON.stringify(path)})\n${code}`;
  return (await run(PYTHON, ['-I', '-c', program])).stdout.trim();
}

/** The sets that are there, and what is left of builds: none of the latter when nothing is being built. */
export async function kept({
  options,
  sets,
}: Pick<Opened, 'options' | 'sets'>): Promise<{ sets: string[]; builds: string[] }> {
  const builds = await readdir(join(options.folder, '.building')).catch(() => []);
  return { sets: await readdir(await sets.folder()), builds };
}
