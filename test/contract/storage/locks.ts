/** Locks: one owner for each key, told by name, and free as soon as it is let go of. */

import { hostname } from 'node:os';
import { expect, it } from 'vitest';
import { failureOf, type OpenStorage, onePlace } from './samples.ts';

export function lockContract(open: OpenStorage): void {
  it('are held by one at a time, in one storage and in two', async () => {
    const again = onePlace(open);
    const storage = await again({ clock: () => 1_700_000_000_000 });
    const lock = await storage.locks.acquire('a');
    expect(lock.held).toBe(true);
    for (const each of [storage, await again()]) {
      const error = await failureOf(each.locks.acquire('a'));
      expect(error).toMatchObject({
        code: 'KEY_BUSY',
        message: expect.stringMatching(new RegExp(`"a".*process ${process.pid}.*2023-11-14T22:13:20.000Z`)),
        details: { pid: process.pid, since: 1_700_000_000_000, host: hostname() },
      });
    }
    const other = await storage.locks.acquire('b');
    expect([lock.held, other.held]).toEqual([true, true]);
  });

  it('are free at once when they are released, and not held after the call', async () => {
    const again = onePlace(open);
    const [storage, other] = [await again(), await again()];
    const lock = await storage.locks.acquire('a');
    const released = lock.release();
    expect(lock.held).toBe(false);
    await released;
    await lock.release();
    const next = await other.locks.acquire('a');
    // A late release of the lock before takes nothing from the one that has it.
    await lock.release();
    expect((await failureOf(storage.locks.acquire('a'))).code).toBe('KEY_BUSY');
    expect(next.held).toBe(true);
  });

  it('show their owner, without being taken', async () => {
    const again = onePlace(open);
    const [storage, other] = [await again({ clock: () => 1_700_000_000_000 }), await again()];
    expect(await other.locks.ownerOf('a')).toBeUndefined();
    const lock = await storage.locks.acquire('a');
    const owner = { pid: process.pid, host: hostname(), since: 1_700_000_000_000 };
    for (const each of [storage, other])
      expect(await each.locks.ownerOf('a')).toEqual({ ...owner, id: storage.locks.id });
    await lock.release();
    expect(await other.locks.ownerOf('a')).toBeUndefined();
  });

  it('are released at the end of a block', async () => {
    const storage = await onePlace(open)();
    for (let round = 0; round < 3; round += 1) {
      await using lock = await storage.locks.acquire('a');
      expect(lock.held).toBe(true);
    }
  });

  it('are waited for as long as the caller allows', async () => {
    const again = onePlace(open);
    const [storage, other] = [await again(), await again()];
    const lock = await storage.locks.acquire('a');
    expect((await failureOf(other.locks.acquire('a', { waitMs: 30 }))).code).toBe('KEY_BUSY');
    const waiting = other.locks.acquire('a', { waitMs: 20_000 });
    const second = failureOf(other.locks.acquire('a', { waitMs: 1 }));
    expect((await second).code).toBe('KEY_BUSY');
    await lock.release();
    expect((await waiting).held).toBe(true);
  });

  it('are given to all waiting callers, one after the other', async () => {
    const again = onePlace(open);
    const storages = [await again(), await again(), await again()];
    let owners = 0;
    const turns = Array.from({ length: 12 }, async (_, index) => {
      const lock = await storages[index % 3]?.locks.acquire('a', { waitMs: 20_000 });
      owners += 1;
      expect(owners).toBe(1);
      await storages[0]?.events.append('a', [index]);
      expect(owners).toBe(1);
      owners -= 1;
      await lock?.release();
    });
    await Promise.all(turns);
    expect(await storages[0]?.events.last('a')).toBe(12);
  });

  it('are not waited for after the caller’s signal aborts', async () => {
    const storage = await onePlace(open)();
    expect((await failureOf(storage.locks.acquire('a', { signal: AbortSignal.abort() }))).code).toBe('ABORTED');
    const lock = await storage.locks.acquire('a');
    const stop = new AbortController();
    const waiting = failureOf(storage.locks.acquire('a', { waitMs: 20_000, signal: stop.signal }));
    stop.abort();
    expect((await waiting).code).toBe('ABORTED');
    await lock.release();
    // Whoever gave up does not hold it.
    expect((await storage.locks.acquire('a')).held).toBe(true);
  });

  it('are released when their storage is closed', async () => {
    const again = onePlace(open);
    const storage = await again();
    const lock = await storage.locks.acquire('a');
    await storage.close();
    expect(lock.held).toBe(false);
    await lock.release();
    expect((await (await again()).locks.acquire('a')).held).toBe(true);
    expect((await failureOf(storage.locks.acquire('a'))).code).toBe('STORAGE_FAILED');
  });
}
