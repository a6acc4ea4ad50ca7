import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { FileStorage } from '../storage/file/storage.ts';
import { Ledger } from './ledger.ts';
import { checkOptions } from './options.ts';

test('a session that cannot be opened because storage fails does not keep its key', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'cella-ledger-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  await using storage = await FileStorage.open(dataDir);
  const options = checkOptions({ agentKey: 'a', storage, dataDir });
  const reading = vi.spyOn(storage.records, 'get').mockRejectedValueOnce(new Error('away'));
  await expect(Ledger.open(options, dataDir)).rejects.toThrow('away');
  expect(reading).toHaveBeenCalledOnce();
  const ledger = await Ledger.open(options, dataDir);
  await ledger.abandon();
});

test('what could not be written while the disk was full is written with what comes next', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'cella-ledger-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  await using storage = await FileStorage.open(dataDir);
  const put = vi.spyOn(Object.getPrototypeOf(storage.records), 'put').mockRejectedValueOnce(new Error('full'));
  onTestFinished(() => put.mockRestore());
  const ledger = await Ledger.open(checkOptions({ agentKey: 'a', storage, dataDir }), dataDir);
  ledger.opened(7);
  await vi.waitFor(() => expect(put).toHaveBeenCalledOnce(), { timeout: 20_000 });
  await ledger.close(2);
  expect(await storage.records.get('a')).toMatchObject({ state: 'hibernated', executions: 2, pid: 7 });
});

test('closing tells that the last of it could not be written', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'cella-ledger-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  await using storage = await FileStorage.open(dataDir);
  const put = vi.spyOn(Object.getPrototypeOf(storage.records), 'put').mockRejectedValueOnce(new Error('full'));
  onTestFinished(() => put.mockRestore());
  const options = checkOptions({ agentKey: 'a', storage, dataDir });
  const ledger = await Ledger.open(options, dataDir);
  await expect(ledger.close(2)).rejects.toThrow('full');
  await (await Ledger.open(options, dataDir)).abandon();
});
