/** Event logs: numbered without a gap, in order, and trimmed only from the front. */

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type LoggedEvent, PAGE_CHARACTERS } from '../../../src/storage/contract.ts';
import { collect, eventsOf, failureOf, type OpenStorage, onePlace } from './samples.ts';

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);

export function eventContract(open: OpenStorage): void {
  it('are numbered from 1 without gaps, also for another storage on the same data', async () => {
    const again = onePlace(open);
    const storage = await again({ clock: () => 1234 });
    expect(await storage.events.last('a')).toBe(0);
    expect(await eventsOf(storage, 'a')).toEqual([]);
    expect(await storage.events.append('a', ['one'])).toBe(1);
    expect(await storage.events.append('a', ['two', 'three'])).toBe(3);
    expect(await storage.events.append('a', [])).toBe(3);
    const other = await again();
    expect(await other.events.append('a', ['four'])).toBe(4);
    expect(await storage.events.last('a')).toBe(4);
    expect((await eventsOf(storage, 'a')).map(({ seq, event }) => [seq, event])).toEqual([
      [1, 'one'],
      [2, 'two'],
      [3, 'three'],
      [4, 'four'],
    ]);
    expect((await eventsOf(other, 'a'))[0]).toEqual({ seq: 1, at: 1234, event: 'one' });
  });

  it('that are not flushed are numbered among the others', async () => {
    const again = onePlace(open);
    const storage = await again();
    const flushed = [true, false, false, true, false];
    const added = flushed.map((one, index) => storage.events.append('a', [index], { flushed: one }));
    expect(await Promise.all(added)).toEqual(numbers(1, 5));
    const events = await eventsOf(await again(), 'a');
    expect(events.map(({ seq, event }) => [seq, event])).toEqual(numbers(1, 5).map((seq) => [seq, seq - 1]));
  });

  it('can be any JSON, and are read unchanged', async () => {
    const storage = await onePlace(open)();
    await fc.assert(
      fc.asyncProperty(fc.array(fc.jsonValue(), { maxLength: 5 }), async (events) => {
        const wanted = JSON.parse(JSON.stringify(events));
        const before = await storage.events.last('a');
        expect(await storage.events.append('a', events)).toBe(before + events.length);
        expect((await eventsOf(storage, 'a', before)).map(({ event }) => event)).toEqual(wanted);
      }),
      { numRuns: 50 },
    );
    await storage.events.append('b', ['\ud800 \0 \u2028 😀', { '': null }]);
    expect((await eventsOf(storage, 'b')).map(({ event }) => event)).toEqual(['\ud800 \0 \u2028 😀', { '': null }]);
  });

  it('are added all or none', async () => {
    const storage = await onePlace(open)();
    const round: unknown[] = [];
    round.push(round);
    for (const wrong of [undefined, 1n, () => {}, round]) {
      const error = await failureOf(storage.events.append('a', ['good', wrong]));
      expect(error).toMatchObject({ code: 'STORAGE_FAILED', message: expect.stringContaining('event 1') });
    }
    expect(await storage.events.last('a')).toBe(0);
    expect(await storage.events.append('a', ['first'])).toBe(1);
  });

  it('that are appended at the same time keep the order of the calls', async () => {
    const again = onePlace(open);
    const [storage, other] = [await again(), await again()];
    const appended = numbers(1, 300).map((n) => (n % 3 ? storage : other).events.append('a', [n, n]));
    const last = await Promise.all(appended);
    expect(last.toSorted((a, b) => a - b)).toEqual(numbers(1, 300).map((n) => 2 * n));
    const events = await eventsOf(storage, 'a');
    expect(events.map(({ seq }) => seq)).toEqual(numbers(1, 600));
    for (const mine of [(n: number) => n % 3 === 0, (n: number) => n % 3 !== 0]) {
      const seen = events.map(({ event }) => Number(event)).filter(mine);
      expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    }
    for (const [index, seq] of last.entries()) expect(events[seq - 1]?.event).toBe(index + 1);
  });

  it('are read from any number, as many as wanted', async () => {
    const storage = await onePlace(open)();
    await storage.events.append('a', numbers(1, 2500));
    const read = async (after?: number, limit?: number) => {
      const options = { ...(after === undefined ? {} : { after }), ...(limit === undefined ? {} : { limit }) };
      const events = await collect(storage.events.read('a', options));
      return events.map(({ seq, event }) => (seq === event ? seq : undefined));
    };
    expect(await read()).toEqual(numbers(1, 2500));
    expect(await read(2490)).toEqual(numbers(2491, 2500));
    expect(await read(10, 3)).toEqual([11, 12, 13]);
    expect(await read(0, 1700)).toEqual(numbers(1, 1700));
    expect(await read(2500)).toEqual([]);
    expect(await read(99_999)).toEqual([]);
    expect(await read(0, 0)).toEqual([]);
  });

  it('that are large are read a few at a time, and reading can stop in between', async () => {
    const storage = await onePlace(open)();
    for (const n of numbers(1, 12)) await storage.events.append('a', [String(n).repeat(400_000)]);
    expect((await eventsOf(storage, 'a')).map(({ event }) => String(event).length)).toHaveLength(12);
    for await (const { seq } of storage.events.read('a')) {
      if (seq === 5) break;
      await storage.events.append('a', ['meanwhile']);
    }
    expect(await storage.events.last('a')).toBe(16);
  });

  it('are in memory a page at a time, which has a limited size', async () => {
    const storage = await onePlace(open)();
    const sizes = [...Array(20).fill(200_000), ...Array(1000).fill(10), 1_000_000, 1_000_000];
    await storage.events.append(
      'a',
      sizes.map((size) => 'x'.repeat(size)),
    );
    const read: number[] = [];
    for (let last = 0; last < sizes.length; ) {
      const page: LoggedEvent[] = [];
      for await (const event of storage.events.read('a', { after: last, onePage: true })) page.push(event);
      const lengths = page.map(({ event }) => String(event).length);
      // No event follows those with which the page is full.
      expect(lengths.slice(0, -1).reduce((sum, length) => sum + length, 0)).toBeLessThan(PAGE_CHARACTERS);
      read.push(...lengths);
      last = page.at(-1)?.seq ?? sizes.length;
    }
    expect(read).toEqual(sizes);
  });

  it('keep their order if the clock jumps back', async () => {
    let now = 10_000;
    const storage = await onePlace(open)({ clock: () => now });
    await storage.events.append('a', ['one']);
    now = 500.5;
    await storage.events.append('a', ['two']);
    now = 20_000;
    await storage.events.append('a', ['three']);
    expect((await eventsOf(storage, 'a')).map(({ at, event }) => [at, event])).toEqual([
      [10_000, 'one'],
      [500, 'two'],
      [20_000, 'three'],
    ]);
  });

  it('that were appended before the storage is closed are kept', async () => {
    const again = onePlace(open);
    const storage = await again();
    const appended = Promise.all(numbers(1, 50).map((n) => storage.events.append('a', [n])));
    await storage.close();
    expect(await appended).toEqual(numbers(1, 50));
    expect((await failureOf(storage.events.append('a', ['late']))).code).toBe('STORAGE_FAILED');
    expect(await (await again()).events.last('a')).toBe(50);
  });

  it('start from 1 again once the log is deleted', async () => {
    const storage = await onePlace(open)();
    await storage.events.append('a', numbers(1, 5000));
    await storage.events.append('b', ['other']);
    expect(await storage.events.delete('a')).toBe(true);
    expect(await storage.events.delete('a')).toBe(false);
    expect([await storage.events.last('a'), await storage.events.floor('a')]).toEqual([0, 0]);
    expect(await storage.events.append('a', ['again'])).toBe(1);
    expect((await eventsOf(storage, 'a')).map(({ event }) => event)).toEqual(['again']);
    expect(await storage.events.last('b')).toBe(1);
  });
}

export function trimContract(open: OpenStorage): void {
  it('keep the newest, and numbers continue', async () => {
    const again = onePlace(open);
    const storage = await again();
    await storage.events.append('a', numbers(1, 5000));
    expect(await storage.events.floor('a')).toBe(0);
    expect(await storage.events.trim('a', { maxEvents: 3 })).toBe(4997);
    expect(await storage.events.trim('a', { maxEvents: 100 })).toBe(4997);
    const other = await again();
    expect(await other.events.floor('a')).toBe(4997);
    expect((await eventsOf(other, 'a')).map(({ seq }) => seq)).toEqual([4998, 4999, 5000]);
    expect(await storage.events.trim('a', { maxEvents: 0 })).toBe(5000);
    expect(await eventsOf(other, 'a')).toEqual([]);
    expect(await other.events.last('a')).toBe(5000);
    expect(await other.events.append('a', ['next'])).toBe(5001);
    expect(await storage.events.trim('nobody', { maxEvents: 0 })).toBe(0);
    expect(await storage.events.trim('a', {})).toBe(5000);
  });

  it('keep no more than the given bytes', async () => {
    const storage = await onePlace(open)();
    // As JSON, each has twelve bytes, also the one with five letters.
    await storage.events.append('a', ['0123456789', 'äääää', '0123456789', '0123456789']);
    expect(await storage.events.trim('a', { maxBytes: 48 })).toBe(0);
    expect(await storage.events.trim('a', { maxBytes: 47 })).toBe(1);
    expect(await storage.events.bytes('a')).toBe(36);
    expect(await storage.events.trim('a', { maxBytes: 24 })).toBe(2);
    await storage.events.append('a', ['0123456789']);
    expect(await storage.events.trim('a', { maxBytes: 24 })).toBe(3);
    expect(await storage.events.trim('a', { maxBytes: 11 })).toBe(5);
    expect([await storage.events.bytes('a'), await storage.events.bytes('nobody')]).toEqual([0, 0]);
  });

  it('are trimmed by age, but never a young one, nor what comes after it', async () => {
    let now = 1000;
    const storage = await onePlace(open)({ clock: () => now });
    for (const at of [1000, 2000, 9000, 1500, 2500, 9500]) {
      now = at;
      await storage.events.append('a', [at]);
    }
    expect(await storage.events.trim('a', { olderThan: 1000 })).toBe(0);
    expect(await storage.events.trim('a', { olderThan: 5000 })).toBe(2);
    expect((await eventsOf(storage, 'a')).map(({ event }) => event)).toEqual([9000, 1500, 2500, 9500]);
    expect(await storage.events.trim('a', { olderThan: 9001 })).toBe(5);
    expect(await storage.events.trim('a', { olderThan: 99_999 })).toBe(6);
  });

  it('follow the strictest of several limits', async () => {
    const storage = await onePlace(open)();
    await storage.events.append('a', numbers(1, 9));
    expect(await storage.events.trim('a', { maxEvents: 8, maxBytes: 5, olderThan: 0 })).toBe(4);
  });
}
