import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { AcquireOptions } from '../../storage/contract.ts';
import { FileStorage } from '../../storage/file/storage.ts';
import { HeldLock } from '../../storage/held-lock.ts';
import { LocalSessionHost } from './host.ts';

test('a session whose lock was in doubt while it was opened is there again when the lock is', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'cella-ownership-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  await using storage = await FileStorage.open(dataDir);
  const taken: HeldLock[] = [];
  const acquire = storage.locks.acquire.bind(storage.locks);
  vi.spyOn(storage.locks, 'acquire').mockImplementation(async (key: string, options?: AcquireOptions) => {
    const lock = await acquire(key, options);
    const own = new HeldLock(key, () => lock.release());
    taken.push(own);
    return own;
  });
  await using host = await LocalSessionHost.open({ storage, dataDir });
  const last = storage.events.last.bind(storage.events);
  vi.spyOn(storage.events, 'last').mockImplementationOnce(async (key) => {
    taken.at(-1)?.become('doubtful');
    return await last(key);
  });
  const { session } = await host.create('local', {});
  const doubted = await host.open(session.id);
  await expect(doubted.workspace()).rejects.toMatchObject({ code: 'STORAGE_UNREACHABLE' });
  taken.at(-1)?.become('held');
  const hosted = await host.open(session.id);
  expect(await hosted.history()).toEqual([]);
  expect(taken).toHaveLength(1);
});
