/** F8 and F9: packages that can be imported, at once and from then on, wherever their storage is opened. */

import { expect } from 'vitest';
import { storageFromBootstrap } from '../../src/index.ts';
import { errorOf, pyValue } from '../support/namespaces/namespaces.ts';
import type { Cell } from './cell.ts';

const CHILD = `
import subprocess, sys
subprocess.run([sys.executable, "-c", "import tiny_a; print(tiny_a.X)"], capture_output=True, text=True).stdout.strip()`;

/** F8: in the cell after it and in the same cell, with what a package needs and brings, and after kernels start anew. */
export async function importAfterSync(cell: Cell): Promise<void> {
  const storage = await cell.openStorage();
  await storage.deps.add('tiny-a>=1.0');
  const session = await cell.openSession();
  expect(await errorOf(session, 'import tiny_a')).toMatchObject({ name: 'ModuleNotFoundError' });
  expect(await pyValue(session, 'deps.sync()\nimport tiny_a\ntiny_a.X')).toBe(42);
  const facts = `
import importlib.metadata, importlib.resources
[importlib.metadata.version("tiny-a"), importlib.metadata.version("tiny-b"),
 importlib.resources.files("tiny_a").joinpath("data.txt").read_text()]`;
  expect(await pyValue(session, facts)).toEqual(['1.2.0', '2.1.0', 'words\n']);
  if (session.capabilities.subprocesses) expect(await pyValue(session, CHILD)).toBe('42');
  await session.reset();
  expect(await pyValue(session, 'import tiny_a; tiny_a.X')).toBe(42);
  await session.restart();
  expect(await pyValue(session, 'import tiny_a; tiny_a.X')).toBe(42);
}

/** F9: in later sessions without the index, through other instances of the storage, and on a machine that has nothing. */
export async function survives(cell: Cell): Promise<void> {
  const first = await cell.openSession({ agentKey: 'first' });
  expect(await pyValue(first, 'deps.add("tiny-a>=1.0")')).toMatchObject({ installed: ['tiny-a>=1.0'] });
  expect(await pyValue(first, 'import tiny_a; kept = tiny_a.X; kept')).toBe(42);
  await first.close();
  await cell.index.down();
  const again = await cell.openSession({ agentKey: 'first' });
  expect(await pyValue(again, 'kept')).toBe(42);
  expect(await pyValue(again, 'import tiny_a; [tiny_a.X, deps.list()]')).toEqual([42, ['tiny-a>=1.0']]);
  await again.hibernate();
  expect(await pyValue(again, 'import tiny_a; tiny_a.X')).toBe(42);
  const other = await cell.openSession({ agentKey: 'other', allowRuntimeDeps: false });
  expect(await pyValue(other, 'import tiny_a; tiny_a.X')).toBe(42);
  await cell.index.up();
  const instance = await cell.openStorage();
  const rebuilt = await storageFromBootstrap(instance.toBootstrapConfig());
  try {
    expect(await rebuilt.deps.list()).toEqual(['tiny-a>=1.0']);
    const elsewhere = { storage: rebuilt, dataDir: cell.newDataDir() };
    const moved = await cell.openSession({ ...elsewhere, agentKey: 'moved', syncDepsOnStart: true });
    expect(await pyValue(moved, 'import tiny_a; tiny_a.X')).toBe(42);
    await moved.close();
  } finally {
    await rebuilt.close();
  }
  // What one session takes out, no other has any more.
  expect(await pyValue(again, 'deps.remove("tiny-a")')).toMatchObject({ removed: ['tiny-a'] });
  const last = await cell.openSession({ syncDepsOnStart: true });
  expect(await pyValue(last, 'deps.list()')).toEqual([]);
  expect(await errorOf(last, 'import tiny_a')).toMatchObject({ name: 'ModuleNotFoundError' });
}
