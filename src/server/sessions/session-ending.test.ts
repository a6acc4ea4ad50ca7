import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { AcquireLockOptions } from '../../storage/contract.ts';
import { FileStorage } from '../../storage/file/file-storage.ts';
import { LockHandle } from '../../storage/lock-handle.ts';
import { SessionManager } from './session-manager.ts';

/** A host and its storage, with a word when a lock is about to be taken. */
async function opened(beforeLock: (storage: FileStorage) => Promise<unknown> = async () => {}) {
  const dataDir = await mkdtemp(join(tmpdir(), 'cella-ownership-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  const storage = await FileStorage.open(dataDir);
  onTestFinished(() => storage.close());
  const taken: LockHandle[] = [];
  const acquire = storage.locks.acquire.bind(storage.locks);
  vi.spyOn(storage.locks, 'acquire').mockImplementation(async (key: string, options?: AcquireLockOptions) => {
    await beforeLock(storage);
    const lock = await acquire(key, options);
    const own = new LockHandle(key, () => lock.release());
    taken.push(own);
    return own;
  });
  const host = await SessionManager.open({ storage, dataDir });
  onTestFinished(() => host.close());
  return { storage, host, taken, dataDir };
}

test('a session whose lock was uncertain while it was opened is available again when the lock is', async () => {
  const { storage, host, taken } = await opened();
  const last = storage.events.last.bind(storage.events);
  vi.spyOn(storage.events, 'last').mockImplementationOnce(async (key) => {
    taken.at(-1)?.setState('uncertain');
    return await last(key);
  });
  const { session } = await host.create('local', {});
  const doubted = await host.open(session.id);
  await expect(doubted.workspace()).rejects.toMatchObject({ code: 'STORAGE_UNREACHABLE' });
  taken.at(-1)?.setState('held');
  const reopened = await host.open(session.id);
  expect(await reopened.history()).toEqual([]);
  expect(taken).toHaveLength(1);
});

test('a session that was changed or deleted before its lock was acquired is in its current state', async () => {
  let change = async (_storage: FileStorage): Promise<unknown> => undefined;
  const { storage, host, taken, dataDir } = await opened((whole) => change(whole));
  const { session } = await host.create('local', {});
  await host.close();
  const later = await SessionManager.open({ storage, dataDir });
  onTestFinished(() => later.close());
  const written = (await storage.documents.get('sessions', session.id))?.value;
  change = async ({ documents }) => documents.put('sessions', session.id, Object.assign({ name: 'other' }, written));
  expect((await later.open(session.id)).info()).toMatchObject({ id: session.id, name: 'other' });
  await later.close();
  const last = await SessionManager.open({ storage, dataDir });
  onTestFinished(() => last.close());
  change = async ({ documents }) => documents.delete('sessions', session.id);
  await expect(last.open(session.id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  expect(taken.map(({ held }) => held)).toEqual([false, false, false]);
});
