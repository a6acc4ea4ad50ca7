import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { codeOf, peerByHand, peerPair } from '../../test/support/servers/rpc-pair.ts';
import { CellaError } from './errors.ts';

const Add = { method: 'add', params: z.object({ a: z.int(), b: z.int() }), result: z.object({ sum: z.int() }) };
const Wait = { method: 'wait', params: z.object({}), result: z.object({}) };
const Tick = { method: 'tick', params: z.object({ n: z.int() }) };
const add = ({ a, b }: { a: number; b: number }) => ({ sum: a + b });

describe('calls', () => {
  test('work in both directions over one connection, also nested', async () => {
    const { near, far } = peerPair();
    far.handle(Add, add).start();
    near
      .handle(Wait, async () => {
        expect(await near.call(Add, { a: 1, b: 1 })).toEqual({ sum: 2 });
        return {};
      })
      .start();
    expect(await far.call(Wait, {})).toEqual({});
    near.close();
  });

  test('get their own replies, in any order', async () => {
    const numbers = fc.uniqueArray(fc.integer({ min: 0, max: 1e6 }), { minLength: 1, maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(numbers, fc.infiniteStream(fc.nat()), async (asked, places) => {
        const { near, far } = peerPair();
        const waiting: (() => void)[] = [];
        far
          .handle(Add, async (params) => {
            const go = Promise.withResolvers<void>();
            waiting.splice((places.next().value ?? 0) % (waiting.length + 1), 0, go.resolve);
            if (waiting.length === asked.length) for (const next of waiting) next();
            await go.promise;
            return add(params);
          })
          .start();
        near.start();
        const sums = await Promise.all(asked.map((a) => near.call(Add, { a, b: 1 })));
        expect(sums).toEqual(asked.map((a) => ({ sum: a + 1 })));
        near.close();
      }),
      { numRuns: 30 },
    );
  });

  test('work the same however their bytes are cut', async () => {
    const request = Buffer.from(
      `\n${JSON.stringify({ jsonrpc: '2.0', id: 'é😀', method: 'add', params: { a: 2, b: 2 } })}\r\n`,
    );
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.nat(request.length)), async (places) => {
        const { peer, say, answer } = peerByHand();
        peer.handle(Add, add).start();
        let from = 0;
        for (const place of [...places.sort((a, b) => a - b), request.length]) {
          if (place > from) say(request.subarray(from, place));
          from = place;
        }
        expect(await answer()).toEqual({ jsonrpc: '2.0', id: 'é😀', result: { sum: 4 } });
        peer.close();
      }),
      { numRuns: 50 },
    );
  });

  test('begin in the order in which they were made', async () => {
    const { near, far } = peerPair();
    const begun: number[] = [];
    far
      .handle(Add, async (params) => {
        begun.push(params.a);
        await null;
        return add(params);
      })
      .on(Tick, ({ n }) => begun.push(n))
      .start();
    near.start();
    const first = near.call(Add, { a: 0, b: 0 });
    void near.notify(Tick, { n: 1 });
    await Promise.all([first, near.call(Add, { a: 2, b: 0 })]);
    expect(begun).toEqual([0, 1, 2]);
    near.close();
  });

  test('that fail return the code, the advice and the details of the error: stacks crossed the wire', async () => {
    const { near, far } = peerPair();
    const busy = () => {
      const cause = new Error('of nobody else’s business');
      throw new CellaError('AGENT_BUSY', 'a turn runs', { details: { task: 't' }, advice: 'Stop it.', cause });
    };
    far.handle(Wait, busy).start();
    near.start();
    const { peer, say, answer } = peerByHand();
    peer.handle(Wait, busy).start();
    say({ id: 1, method: Wait.method, params: {} });
    expect(JSON.stringify(await answer())).not.toMatch(/business|stack|\.ts|at .*:\d/);
    peer.close();
    const error = await near.call(Wait, {}).catch((cause: unknown) => cause);
    expect(error).toMatchObject({
      code: 'AGENT_BUSY',
      message: 'a turn runs',
      details: { task: 't' },
      advice: 'Stop it.',
    });
    near.close();
  });

  test('are aborted when nobody waits for them any more', async () => {
    const { near, far } = peerPair();
    const abort = new AbortController();
    const stopped = Promise.withResolvers<void>();
    far
      .handle(Wait, (_, { signal }) => {
        signal.addEventListener('abort', () => stopped.resolve());
        abort.abort();
        return new Promise(() => {});
      })
      .start();
    near.start();
    expect(await codeOf(near.call(Wait, {}, { signal: abort.signal }))).toBe('ABORTED');
    await stopped.promise;
    expect(await codeOf(near.call(Wait, {}, { signal: abort.signal }))).toBe('ABORTED');
    expect(near.pendingCalls).toBe(0);
    near.close();
  });

  test('have the timeout of their caller, and a late reply goes to nobody else', async () => {
    const { peer, say, answer } = peerByHand();
    peer.start();
    expect(await codeOf(peer.call(Wait, {}, { timeoutMs: 1 }))).toBe('DEADLINE_EXCEEDED');
    const late = await answer();
    const next = peer.call(Add, { a: 1, b: 1 });
    say({ id: late.id, result: {} });
    say({ id: Number(late.id) + 1, result: { sum: 2 } });
    expect(await next).toEqual({ sum: 2 });
    peer.close();
  });

  test('all fail with RUNNER_GONE when the other side dies, and so does every later one', async () => {
    const { near, far } = peerPair();
    far.handle(Wait, () => new Promise(() => {})).start();
    near.start();
    const calls = [near.call(Wait, {}), near.call(Wait, {}), near.call(Wait, {}, { timeoutMs: 3_600_000 })];
    far.close();
    expect(await Promise.all(calls.map(codeOf))).toEqual(['RUNNER_GONE', 'RUNNER_GONE', 'RUNNER_GONE']);
    expect((await near.closed).code).toBe('RUNNER_GONE');
    expect(await codeOf(near.call(Wait, {}))).toBe('RUNNER_GONE');
  });

  test('that are too long for a frame are refused on this side, and the connection stays open', async () => {
    const { near, far } = peerPair({ frameBytes: 200 });
    const Echo = { method: 'echo', params: z.object({ n: z.int() }), result: z.string() };
    far.handle(Echo, ({ n }) => 'é'.repeat(n)).start();
    near.start();
    expect(await codeOf(near.call(Echo, { n: 1000 }))).toBe('TOO_LARGE');
    expect(await codeOf(near.call({ ...Echo, method: 'x'.repeat(300) }, { n: 1 }))).toBe('TOO_LARGE');
    expect(await near.call(Echo, { n: 2 })).toBe('éé');
    near.close();
  });

  test('wait at the sender if the receiver does not read', async () => {
    const { peer, output } = peerByHand();
    peer.start();
    let sent = 0;
    const flood = (async () => {
      while (sent < 100_000) {
        await peer.notify(Tick, { n: sent });
        sent += 1;
      }
    })();
    const full = await new Promise<number>((resolve) => {
      const look = () => (output.writableNeedDrain ? setImmediate(() => resolve(sent)) : setImmediate(look));
      look();
    });
    expect(full).toBeLessThan(100_000);
    output.resume();
    await flood;
    peer.close();
  });
});
