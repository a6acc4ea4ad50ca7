import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { FileStorage } from '../storage/file/file-storage.ts';
import { checkOptions } from './session-options.ts';
import { CellHistory, StoredSession } from './stored-session.ts';

test('a session that cannot be opened because storage fails does not lock its key', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'cella-stored-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  await using storage = await FileStorage.open(dataDir);
  const options = checkOptions({ agentKey: 'a', storage, dataDir });
  const reading = vi.spyOn(storage.records, 'get').mockRejectedValueOnce(new Error('away'));
  await expect(StoredSession.open(options, dataDir)).rejects.toThrow('away');
  expect(reading).toHaveBeenCalledOnce();
  const stored = await StoredSession.open(options, dataDir);
  await stored.releaseLock();
});

test('a session whose storage is fenced by the lock on its key uses that lock and does not release it', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'cella-stored-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  await using storage = await FileStorage.open(dataDir);
  await using lock = await storage.locks.acquire('a');
  const open = async (agentKey: string) =>
    await StoredSession.open(checkOptions({ agentKey, storage: storage.fenced(lock), dataDir }), dataDir);
  const [stored, other] = [await open('a'), await open('b')];
  await expect(storage.locks.acquire('b')).rejects.toMatchObject({ code: 'KEY_BUSY' });
  await other.close(0);
  await stored.close(3);
  expect(await storage.records.get('a')).toMatchObject({ executions: 3 });
  await stored.deleteAll(async () => {});
  expect([lock.held, await storage.records.get('a')]).toEqual([true, undefined]);
});

test('data that could not be written while the disk was full is written with the next write', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'cella-stored-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  await using storage = await FileStorage.open(dataDir);
  const put = vi.spyOn(Object.getPrototypeOf(storage.records), 'put').mockRejectedValueOnce(new Error('full'));
  onTestFinished(() => put.mockRestore());
  const stored = await StoredSession.open(checkOptions({ agentKey: 'a', storage, dataDir }), dataDir);
  stored.opened(7);
  await vi.waitFor(() => expect(put).toHaveBeenCalledOnce(), { timeout: 20_000 });
  await stored.close(2);
  expect(await storage.records.get('a')).toMatchObject({ state: 'hibernated', executions: 2, pid: 7 });
});

test('closing reports that the last write failed', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'cella-stored-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  await using storage = await FileStorage.open(dataDir);
  const put = vi.spyOn(Object.getPrototypeOf(storage.records), 'put').mockRejectedValueOnce(new Error('full'));
  onTestFinished(() => put.mockRestore());
  const options = checkOptions({ agentKey: 'a', storage, dataDir });
  const stored = await StoredSession.open(options, dataDir);
  await expect(stored.close(2)).rejects.toThrow('full');
  await (await StoredSession.open(options, dataDir)).releaseLock();
});

const cell = (execution: number, code = 'x') => ({ execution, code, status: 'ok' }) as const;

test('the newest thousand cells are kept, in order', () => {
  const cells = new CellHistory([cell(1), cell(2)]);
  for (let execution = 3; execution <= 4321; execution++) {
    cells.add(cell(execution));
    const from = Math.max(1, execution - 999);
    expect(cells.all[0]?.execution).toBe(from);
    expect(cells.all).toHaveLength(execution - from + 1);
  }
  expect(cells.all.map(({ execution }) => execution)).toEqual(Array.from({ length: 1000 }, (_, at) => 3322 + at));
});

test('cells that are large in total do not all stay in memory; the newest always does', () => {
  const cells = new CellHistory([]);
  const large = 'x'.repeat(20 * 1024 * 1024);
  for (let execution = 1; execution <= 3; execution++) cells.add(cell(execution, large));
  expect(cells.all.map(({ execution }) => execution)).toEqual([3]);
  cells.add(cell(4, 'small'));
  expect(cells.all.map(({ execution }) => execution)).toEqual([3, 4]);
  cells.add(cell(5, large + large));
  expect(cells.all.map(({ execution }) => execution)).toEqual([5]);
});
