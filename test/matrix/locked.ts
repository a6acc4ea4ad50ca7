/** F4 to F6: what `allowRuntimeDeps: false` forbids, and what it still allows. */

import { expect } from 'vitest';
import { errorOf, pyValue } from '../support/namespaces/namespaces.ts';
import type { Cell } from './cell.ts';

const REFUSED = { name: 'CellaPermissionError', message: expect.stringContaining('locked') };

/** F4: from code and from the host, for packages that are configured and for others; the same call works unlocked. */
export async function addBlocked(cell: Cell): Promise<void> {
  const storage = await cell.openStorage();
  const session = await cell.openSession({ allowRuntimeDeps: false });
  for (const call of ['add("evil")', 'add("tiny-a", "evil")', 'add("evil==1.0.0")', 'add("no such; name")']) {
    expect(await errorOf(session, `deps.${call}`)).toMatchObject(REFUSED);
  }
  expect(
    await pyValue(session, 'try: deps.add("evil")\nexcept PermissionError as error: word = error.code\nword'),
  ).toBe('DEPS_LOCKED');
  await expect(session.deps.add('evil')).rejects.toMatchObject({ code: 'DEPS_LOCKED' });
  expect(await storage.deps.list()).toEqual([]);
  expect(cell.index.requests).toEqual([]);
  expect(await errorOf(session, 'import evil')).toMatchObject({ name: 'ModuleNotFoundError' });
  const free = await cell.openSession();
  expect(await pyValue(free, 'deps.add("evil"); import evil; evil.VERSION')).toBe('1.0.0');
}

/** F5: what is there stays, in storage and in kernels that start later; the same call works unlocked. */
export async function removeBlocked(cell: Cell): Promise<void> {
  const storage = await cell.openStorage();
  await storage.deps.add('tiny-a>=1.0');
  const session = await cell.openSession({ allowRuntimeDeps: false, syncDepsOnStart: true });
  for (const name of ['tiny-a', 'Tiny_A', 'never-there']) {
    expect(await errorOf(session, `deps.remove("${name}")`)).toMatchObject(REFUSED);
  }
  await expect(session.deps.remove('tiny-a')).rejects.toMatchObject({ code: 'DEPS_LOCKED' });
  expect(await storage.deps.list()).toEqual(['tiny-a>=1.0']);
  await session.restart();
  expect(await pyValue(session, 'import tiny_a; tiny_a.X')).toBe(42);
  const free = await cell.openSession();
  expect(await pyValue(free, 'deps.remove("tiny-a")')).toMatchObject({ removed: ['tiny-a'] });
  expect(await storage.deps.list()).toEqual([]);
}

/** F6: a locked session installs what its operator has configured, whenever that was, and nothing else. */
export async function syncAllowed(cell: Cell): Promise<void> {
  const storage = await cell.openStorage();
  await storage.deps.add('tiny-b');
  const session = await cell.openSession({ allowRuntimeDeps: false });
  expect(await pyValue(session, 'deps.sync()')).toMatchObject({ installed: ['tiny-b'], failed: [] });
  expect(await pyValue(session, 'import tiny_b; tiny_b.Y')).toBe(41);
  const asked = cell.index.requests.length;
  expect(asked).toBeGreaterThan(0);
  expect(await pyValue(session, 'deps.sync()')).toMatchObject({ installed: ['tiny-b'], failed: [] });
  // What is there is not asked for again.
  expect(cell.index.requests).toHaveLength(asked);
  await storage.deps.add('tiny-a>=1.0');
  expect(await session.deps.sync()).toMatchObject({ installed: ['tiny-a>=1.0', 'tiny-b'], failed: [] });
  await session.restart();
  expect(await pyValue(session, 'import tiny_a; tiny_a.X')).toBe(42);
  expect(await errorOf(session, 'import evil')).toMatchObject({ name: 'ModuleNotFoundError' });
  expect(await storage.deps.list()).toEqual(['tiny-a>=1.0', 'tiny-b']);
}
