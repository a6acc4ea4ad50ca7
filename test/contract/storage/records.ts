/** Session records: what was put last is there, with everything that was in it. */

import { expect, it } from 'vitest';
import { HISTORY_CELLS } from '../../../src/storage/session-record.ts';
import { collect, failureOf, type OpenStorage, onePlace, recordOf } from './samples.ts';

export function recordContract(open: OpenStorage): void {
  it('are stored unchanged, also for another storage on the same data', async () => {
    const again = onePlace(open);
    const storage = await again();
    const record = recordOf('a', {
      state: 'hibernated',
      lastSave: { id: 'one', at: 5 },
      pid: 4711,
      memoryBytes: 1e9,
      workspaceOf: 'b/\ud800',
      history: [{ execution: 1, code: 'print("\0 \ud83d é")', status: 'interrupted' }],
    });
    expect(await storage.records.get('a')).toBeUndefined();
    await storage.records.put('a', record);
    expect(await (await again()).records.get('a')).toEqual(record);
    await storage.records.put('a', recordOf('a', { executions: 3 }));
    expect(await (await again()).records.get('a')).toEqual(recordOf('a', { executions: 3 }));
  });

  it('keep the fields of a newer version', async () => {
    const storage = await onePlace(open)();
    const newer = {
      ...recordOf('a'),
      mood: { calm: [1, null] },
      lastSave: { id: 'one', at: 1, took: 12 },
      history: [{ execution: 1, code: 'x', status: 'ok' as const, tags: ['t'] }],
    };
    await storage.records.put('a', newer);
    const read = await storage.records.get('a');
    expect(read).toEqual(newer);
    if (read) await storage.records.put('a', { ...read, executions: 9 });
    expect(await storage.records.get('a')).toEqual({ ...newer, executions: 9 });
  });

  it('keep the newest part of a long history', async () => {
    const storage = await onePlace(open)();
    const cell = (execution: number) => ({ execution, code: `x = ${execution}`, status: 'ok' as const });
    const history = Array.from({ length: HISTORY_CELLS + 10 }, (_, index) => cell(index + 1));
    await storage.records.put('a', recordOf('a', { history }));
    const read = await storage.records.get('a');
    expect(read?.history).toHaveLength(HISTORY_CELLS);
    expect(read?.history.at(-1)?.execution).toBe(HISTORY_CELLS + 10);
  });

  it('are listed in the order in which their keys were first stored', async () => {
    const again = onePlace(open);
    const storage = await again();
    for (const key of ['z', 'a', 'm']) await storage.records.put(key, recordOf(key));
    await storage.records.put('z', recordOf('z', { updatedAt: 0 }));
    expect((await collect((await again()).records.list())).map(({ agentKey }) => agentKey)).toEqual(['z', 'a', 'm']);
    expect(await storage.records.damaged()).toEqual([]);
  });

  it('are gone once deleted', async () => {
    const storage = await onePlace(open)();
    await storage.records.put('a', recordOf('a'));
    expect(await storage.records.delete('a')).toBe(true);
    expect(await storage.records.delete('a')).toBe(false);
    expect(await storage.records.get('a')).toBeUndefined();
    expect(await collect(storage.records.list())).toEqual([]);
  });

  it('are refused if they are invalid, and the previous one stays', async () => {
    const storage = await onePlace(open)();
    await storage.records.put('a', recordOf('a'));
    const wrong = { ...recordOf('a'), state: 'asleep' } as never;
    const error = await failureOf(storage.records.put('a', wrong));
    expect(error).toMatchObject({ code: 'STORAGE_FAILED', message: expect.stringContaining('state') });
    expect(await storage.records.get('a')).toEqual(recordOf('a'));
  });

  it('cannot be used once the storage is closed', async () => {
    const storage = await onePlace(open)();
    await storage.close();
    expect((await failureOf(storage.records.get('a'))).code).toBe('STORAGE_FAILED');
    expect((await failureOf(storage.records.put('a', recordOf('a')))).code).toBe('STORAGE_FAILED');
  });
}
