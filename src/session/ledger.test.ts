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
