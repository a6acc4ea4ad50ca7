/** Many readers of one session, slow ones and such as vanish: each gets every event once, and costs the others nothing. */

import { describe, expect, test } from 'vitest';
import type { SessionEvent } from '../../../src/protocol/session-events.ts';
import { execute, start } from '../../support/servers/executions.ts';
import { isEvent, newPlace, next, numbersOf, openServerSession, upTo, useRedis } from './session-managers.ts';

useRedis();

const COUNT = 3000;
/** Each display is an event of its own: output is put together on its way. */
const CODE = `import time
begin = time.monotonic()
for n in range(${COUNT}):
    display(n)
    if n % 10 == 0: time.sleep(max(0, begin + n / 1000 - time.monotonic()))`;

describe.each(['file', 'redis'] as const)('readers in %s storage', (kind) => {
  test('20 of them get 1,000 events a second, each once and in order', { timeout: 120_000 }, async () => {
    const { serverSession, manager } = await openServerSession(await newPlace(kind));
    await execute(serverSession, '1');
    const { execution, firstSeq, outcome } = await start(serverSession, CODE);
    const read = async () => {
      const seen: SessionEvent[] = [];
      for await (const item of serverSession.events({ after: firstSeq - 1, execution }))
        if (isEvent(item)) seen.push(item);
      return seen;
    };
    const readers = upTo(20).map(read);
    await outcome;
    for (const reader of readers) {
      const seen = await reader;
      expect(numbersOf(seen)).toEqual(upTo(firstSeq + seen.length - 1, firstSeq));
      expect(seen.filter(({ type }) => type === 'display')).toHaveLength(COUNT);
    }
    expect((await manager.metrics()).readers).toBe(0);
  });

  test('a slow one gets every event later; one that disappears is forgotten', {
    timeout: 120_000,
  }, async () => {
    const { serverSession, manager } = await openServerSession(await newPlace(kind));
    const slow = serverSession.events()[Symbol.asyncIterator]();
    const vanished = serverSession.events()[Symbol.asyncIterator]();
    const seen: number[] = [];
    const step = async () => {
      const { value } = await slow.next();
      if (value && isEvent(value)) seen.push(value.seq);
    };
    await step();
    await vanished.next();
    expect((await manager.metrics()).readers).toBe(2);
    const fast = next(serverSession, 'result');
    await execute(serverSession, "for n in range(200): print('x' * 20_000, flush=True)");
    // It had not asked for anything, and nobody had to wait for it.
    await fast;
    await vanished.return?.();
    const { last } = await serverSession.position();
    while ((seen.at(-1) ?? 0) < last) await step();
    expect(seen).toEqual(upTo(last));
    await slow.return?.();
    expect((await manager.metrics()).readers).toBe(0);
  });

  test('one that disconnects while it waits is removed', async () => {
    const { serverSession, manager } = await openServerSession(await newPlace(kind));
    const gone = new AbortController();
    const { last } = await serverSession.position();
    const reading = serverSession.events({ after: last, signal: gone.signal })[Symbol.asyncIterator]().next();
    expect((await manager.metrics()).readers).toBe(1);
    gone.abort();
    expect(await reading).toEqual({ done: true, value: undefined });
    expect((await manager.metrics()).readers).toBe(0);
  });
});
