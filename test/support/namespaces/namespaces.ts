/** Sessions with storages of their own, and what the tests of the namespaces ask of them again and again. */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect } from 'vitest';
import type { PyValue, Session, SessionOptions, Storage } from '../../../src/index.ts';
import type { Place } from '../../contract/namespaces/namespaces.ts';
import { closeSessions, scratchFolder } from '../kernels/session.ts';
import { type PackageIndex, startIndex } from '../packages/package-index.ts';

const storages = new Set<Storage>();
const indexes = new Set<PackageIndex>();

export interface Opened {
  readonly session: Session;
  readonly storage: Storage;
}

export async function openWith(place: Place, options: SessionOptions = {}): Promise<Opened> {
  const storage = options.storage ?? (await newStorage(place));
  return { session: await place.open({ persist: false, ...options, storage }), storage };
}

/** Closed after the test, and after its sessions. */
export async function newStorage(place: Pick<Place, 'openStorage'>): Promise<Storage> {
  const storage = await place.openStorage();
  storages.add(storage);
  return storage;
}

/** An index with nothing in it, and the folder that its wheels go to. */
export async function newIndex(): Promise<{ index: PackageIndex; wheels: string }> {
  const wheels = join(await scratchFolder(), 'wheels');
  await mkdir(wheels);
  const index = await startIndex(wheels);
  indexes.add(index);
  return { index, wheels };
}

afterEach(async () => {
  await closeSessions();
  const all = [...indexes, ...storages];
  indexes.clear();
  storages.clear();
  await Promise.all(all.map((one) => one.close()));
});

/** The value of code that must not fail. */
export async function pyValue(session: Session, code: string): Promise<PyValue> {
  const result = await session.run(code);
  expect(result.error?.traceback).toBeUndefined();
  return result.value ?? null;
}

/** What code raises: the exception's class and its text. */
export async function errorOf(session: Session, code: string): Promise<{ name: string; message: string }> {
  const { error, status } = await session.run(code);
  expect(status).toBe('error');
  return { name: error?.name ?? '', message: error?.message ?? '' };
}
