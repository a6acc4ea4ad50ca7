import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { AcquireLockOptions } from '../../storage/contract.ts';
import { FileStorage } from '../../storage/file/file-storage.ts';
import { LockHandle } from '../../storage/lock-handle.ts';
import { SessionManager } from './session-manager.ts';

async function opened() {
  const dataDir = await mkdtemp(join(tmpdir(), 'cella-manager-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  const storage = await FileStorage.open(dataDir);
  onTestFinished(() => storage.close());
  const locks: LockHandle[] = [];
  const acquire = storage.locks.acquire.bind(storage.locks);
  vi.spyOn(storage.locks, 'acquire').mockImplementation(async (key: string, options?: AcquireLockOptions) => {
    const lock = await acquire(key, options);
    const own = new LockHandle(key, () => lock.release());
    locks.push(own);
    return own;
  });
  const manager = await SessionManager.open({ storage, dataDir });
  onTestFinished(() => manager.close());
  const { session } = await manager.create('local', { name: 'before' });
  const reads = vi.spyOn(storage.documents, 'get');
  return { manager, storage, locks, reads, id: session.id };
}

test('an open session is described without a read of its definition, and each change is visible at once', async () => {
  const { manager, reads, id } = await opened();
  expect(await manager.get(id)).toMatchObject({ id, name: 'before', state: 'hibernated' });
  expect(reads).not.toHaveBeenCalled();
  await manager.update(id, { name: 'after', shares: [{ role: 'viewer', right: 'view' }] });
  reads.mockClear();
  expect(await manager.get(id)).toMatchObject({ name: 'after', shares: [{ role: 'viewer', right: 'view' }] });
  expect(reads).not.toHaveBeenCalled();
  await manager.delete(id);
  await expect(manager.get(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
});

test('a session that is being deleted is not found, even before its kernel and its files are gone', async () => {
  const { manager, storage, id } = await opened();
  const { promise: removing, resolve: goOn } = Promise.withResolvers<void>();
  const list = storage.documents.list.bind(storage.documents);
  let lists = 0;
  // The second listing of its forks comes after it is marked.
  vi.spyOn(storage.documents, 'list').mockImplementation(async (...args) => {
    if (args[0] === 'sessions' && ++lists === 2) await removing;
    return await list(...args);
  });
  const deleted = manager.delete(id);
  await vi.waitFor(() => expect(lists).toBe(2));
  await expect(manager.get(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  goOn();
  await deleted;
});

test('while another server may have the session, and after a change that failed, its definition is read', async () => {
  const { manager, storage, locks, reads, id } = await opened();
  locks.at(-1)?.setState('uncertain');
  await manager.get(id);
  expect(reads).toHaveBeenCalledTimes(1);
  locks.at(-1)?.setState('held');
  const put = storage.documents.put.bind(storage.documents);
  const session = await manager.open(id);
  // Storage writes it, but its answer is lost.
  vi.spyOn(session.storage.documents, 'put').mockImplementationOnce(async (...args) => {
    await put(...args);
    throw new Error('no answer');
  });
  await expect(manager.update(id, { name: 'written' })).rejects.toThrow('no answer');
  expect(await manager.get(id)).toMatchObject({ name: 'written' });
  await manager.update(id, { name: 'last' });
  reads.mockClear();
  expect(await manager.get(id)).toMatchObject({ name: 'last' });
  expect(reads).not.toHaveBeenCalled();
});
