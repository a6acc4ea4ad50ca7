/** F1 to F3: packages that were configured before there was a session, and the list of them. */

import { expect } from 'vitest';
import { errorOf, pyValue } from '../support/namespaces/namespaces.ts';
import type { Cell } from './cell.ts';

/** F1: what an operator writes into storage is what every later session has, and nothing is installed by writing it. */
export async function configuredBefore(cell: Cell): Promise<void> {
  const operator = await cell.openStorage();
  expect(await operator.deps.add('tiny-a>=1.0')).toBe(true);
  expect(await operator.deps.add('Evil')).toBe(true);
  expect(await operator.deps.remove('evil')).toBe(true);
  await operator.close();
  const session = await cell.openSession();
  expect(session.executor).toBe(cell.combination.executor);
  expect(await pyValue(session, 'deps.list()')).toEqual(['tiny-a>=1.0']);
  expect(await session.deps.list()).toEqual(['tiny-a>=1.0']);
  expect(await errorOf(session, 'import tiny_a')).toMatchObject({ name: 'ModuleNotFoundError' });
  expect(cell.index.requests).toEqual([]);
}

/** F2: with the option they are there in the first cell; without it they are not. What cannot be installed is told. */
export async function syncOnStart(cell: Cell): Promise<void> {
  const storage = await cell.openStorage();
  await storage.deps.add('tiny-a>=1.0');
  const without = await cell.openSession();
  expect(await errorOf(without, 'import tiny_a')).toMatchObject({ name: 'ModuleNotFoundError' });
  expect(cell.index.requests).toEqual([]);
  const told: string[] = [];
  const onProgress = (text: string) => told.push(text);
  const session = await cell.openSession({ syncDepsOnStart: true, onProgress });
  expect(await pyValue(session, 'import tiny_a; tiny_a.X')).toBe(42);
  expect(told).not.toEqual([]);
  expect(cell.index.requests.some((path) => path.includes('tiny-b'))).toBe(true);
  await storage.deps.add('nowhere');
  const dataDir = cell.newDataDir();
  const partly = await cell.openSession({ syncDepsOnStart: true, onProgress, dataDir });
  expect(told.join('\n')).toContain('nowhere could not be installed');
  expect(await pyValue(partly, 'import tiny_a; tiny_a.X')).toBe(42);
}

/** F3: with nothing configured, locked or not, with an index or without, before and after an install, on both sides. */
export async function listAlways(cell: Cell): Promise<void> {
  const storage = await cell.openStorage();
  const free = await cell.openSession();
  const locked = await cell.openSession({ allowRuntimeDeps: false, packages: { noIndex: true } });
  const lists = async () => [
    await pyValue(free, 'deps.list()'),
    await pyValue(locked, 'deps.list()'),
    await free.deps.list(),
    await locked.deps.list(),
    await storage.deps.list(),
  ];
  expect(await lists()).toEqual(new Array(5).fill([]));
  expect(await pyValue(free, 'deps.add("tiny-a>=1.0")')).toMatchObject({ installed: ['tiny-a>=1.0'], failed: [] });
  expect(await lists()).toEqual(new Array(5).fill(['tiny-a>=1.0']));
  await cell.index.down();
  await storage.deps.add('nowhere<3');
  expect(await pyValue(locked, 'deps.sync()["failed"] != []')).toBe(true);
  expect(await lists()).toEqual(new Array(5).fill(['nowhere<3', 'tiny-a>=1.0']));
  await locked.restart();
  expect(await pyValue(locked, 'deps.list()')).toEqual(['nowhere<3', 'tiny-a>=1.0']);
}
