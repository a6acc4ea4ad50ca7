import { afterEach, describe, expect, it, vi } from 'vitest';
import { GroupCommit, loadSqlite } from './database.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

describe('loading SQLite', () => {
  it('suppresses its own warning, passes others on, and leaves the process unchanged', () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const before = process.emitWarning;
    const load = process.getBuiltinModule;
    vi.spyOn(process, 'getBuiltinModule').mockImplementation((name: string) => {
      process.emitWarning('SQLite is an experimental feature and might change at any time', 'ExperimentalWarning');
      process.emitWarning('something else', 'DeprecationWarning');
      return Reflect.apply(load, process, [name]);
    });
    expect(loadSqlite().DatabaseSync).toBeTypeOf('function');
    expect(warned.mock.calls).toEqual([['something else', 'DeprecationWarning']]);
    expect(process.emitWarning).toBe(before);
  });
});

/** A disk whose flushes elsewhere end when the test says so, and take as long here as it says. */
function disk() {
  const begun: PromiseWithResolvers<void>[] = [];
  const state = { now: 0, flushMs: 100, flushedHere: 0, problem: undefined as Error | undefined };
  const sync = new GroupCommit(
    {
      flush() {
        state.flushedHere++;
        state.now += state.flushMs;
        if (state.problem) throw state.problem;
      },
      flushElsewhere() {
        const flush = Promise.withResolvers<void>();
        begun.push(flush);
        return flush.promise;
      },
    },
    () => state.now,
  );
  return { begun, sync, state };
}

/** One that was slow a moment ago. */
async function slowDisk() {
  const all = disk();
  await all.sync.flushed();
  return all;
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('shared flushes', () => {
  it('serve all callers from before the flush with one, and later ones with the next', async () => {
    const { begun, sync } = await slowDisk();
    const ended: string[] = [];
    const ask = (name: string) => sync.flushed().then(() => ended.push(name));
    const first = [ask('a'), ask('b')];
    await turn();
    const second = [ask('c'), ask('d'), ask('e')];
    await turn();
    expect(begun).toHaveLength(1);
    begun[0]?.resolve();
    await Promise.all(first);
    await turn();
    expect(ended).toEqual(['a', 'b']);
    expect(begun).toHaveLength(2);
    begun[1]?.resolve();
    await Promise.all(second);
    expect(ended).toEqual(['a', 'b', 'c', 'd', 'e']);
  });

  it('report a failure to their callers, and to no others', async () => {
    const { begun, sync } = await slowDisk();
    const first = sync.flushed();
    await turn();
    const second = sync.flushed();
    begun[0]?.reject(new Error('disk'));
    await expect(first).rejects.toThrow('disk');
    await turn();
    begun[1]?.resolve();
    await second;
  });
});

describe('flushes of one caller', () => {
  it('flush a fast disk at once, while nobody else asks', async () => {
    const { begun, sync, state } = disk();
    state.flushMs = 0.1;
    for (let round = 0; round < 3; round++) {
      await sync.flushed();
      state.now += 2;
    }
    expect([state.flushedHere, begun.length]).toEqual([3, 0]);
    const both = [sync.flushed(), sync.flushed()];
    await turn();
    expect([state.flushedHere, begun.length]).toEqual([4, 1]);
    // While one flushes elsewhere, another shares the next.
    state.now += 2;
    both.push(sync.flushed());
    begun[0]?.resolve();
    await turn();
    expect([state.flushedHere, begun.length]).toEqual([4, 2]);
    begun[1]?.resolve();
    await Promise.all(both);
  });

  it('use another thread after the disk was slow, and return to this one for a fast disk', async () => {
    const { begun, sync, state } = await slowDisk();
    state.now += 2;
    const waiting = sync.flushed();
    await turn();
    expect([state.flushedHere, begun.length]).toEqual([1, 1]);
    begun[0]?.resolve();
    await waiting;
    state.now += 11_000;
    await sync.flushed();
    expect([state.flushedHere, begun.length]).toEqual([2, 1]);
  });

  it('report their failure', async () => {
    const { sync, state } = disk();
    state.problem = new Error('disk');
    await expect(sync.flushed()).rejects.toThrow('disk');
  });
});
