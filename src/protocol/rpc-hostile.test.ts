import { describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { codeOf, peerByHand, peerPair } from '../../test/support/servers/rpc-pair.ts';

const Add = { method: 'add', params: z.object({ a: z.int(), b: z.int() }), result: z.object({ sum: z.int() }) };
const Wait = { method: 'wait', params: z.object({}), result: z.object({}) };

describe('a peer that breaks the protocol', () => {
  test('gets -32700, -32600, -32601, -32602 and -32603, and can continue', async () => {
    const { peer, say, answer } = peerByHand();
    peer
      .handle(Add, ({ a, b }) => ({ sum: a + b }))
      .handle(Wait, () => {
        throw new Error('the secret is in /home/me/.key');
      })
      .start();
    say('{"jsonrpc":\n');
    expect(await answer()).toMatchObject({ id: null, error: { code: -32700 } });
    say([]);
    say('[{"jsonrpc":"2.0","id":1,"method":"add"}]\n');
    expect(await answer()).toMatchObject({ id: null, error: { code: -32600 } });
    expect(await answer()).toMatchObject({ id: null, error: { code: -32600 } });
    say({ id: 2, method: 'nobody has this' });
    expect(await answer()).toMatchObject({ id: 2, error: { code: -32601 } });
    say({ id: 3, method: 'add', params: { a: 1, b: 'two' } });
    expect(await answer()).toMatchObject({ id: 3, error: { code: -32602, message: expect.stringContaining('b') } });
    say({ id: 4, method: 'wait' });
    const failed = await answer();
    expect(failed).toMatchObject({ id: 4, error: { code: -32603, data: { code: 'INTERNAL' } } });
    expect(JSON.stringify(failed)).not.toMatch(/secret|stack|\.ts/);
    say({ id: 5, method: 'add', params: { a: 1, b: 2, c: 'unknown fields are let pass' } });
    expect(await answer()).toMatchObject({ id: 5, result: { sum: 3 } });
    peer.close();
  });

  test('is given up after a number of invalid lines', async () => {
    const { peer, say, output } = peerByHand({ faults: 10 });
    output.resume();
    peer.start();
    say('nonsense\n'.repeat(50));
    expect((await peer.closed).code).toBe('RUNNER_PROTOCOL');
  });

  test('that sends 100 MB in a line is given up at once, and pending calls fail', async () => {
    const { peer, input, answer } = peerByHand({ frameBytes: 64 * 1024 });
    peer.start();
    const call = codeOf(peer.call(Wait, {}));
    const piece = Buffer.alloc(1024 * 1024, 'x');
    let sent = 0;
    while (sent < 100 && !input.destroyed) {
      input.write(piece);
      sent += 1;
      await new Promise(setImmediate);
    }
    expect(sent).toBeLessThan(20);
    expect(await call).toBe('RUNNER_PROTOCOL');
    expect((await answer()).method).toBe('wait');
    expect(await answer()).toMatchObject({ id: null, error: { data: { code: 'TOO_LARGE' } } });
  });

  test('gets at most the limit of its calls handled at once', async () => {
    const { peer, say, answer } = peerByHand({ inFlight: 3 });
    const worked = vi.fn(() => new Promise<Record<string, never>>(() => {}));
    peer.handle(Wait, worked).start();
    for (let id = 0; id < 10; id += 1) say({ id, method: 'wait' });
    for (let id = 3; id < 10; id += 1) expect(await answer()).toMatchObject({ id, error: { code: -32079 } });
    expect(worked).toHaveBeenCalledTimes(3);
    peer.close();
  });

  test('that floods without reading its refusals is no longer read', async () => {
    const { peer, input } = peerByHand();
    peer.start();
    const line = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'nobody has this' })}\n`;
    let sent = 0;
    while (sent < 5000 && input.write(line.repeat(100))) {
      sent += 1;
      await new Promise(setImmediate);
    }
    expect(sent).toBeLessThan(5000);
    expect(process.memoryUsage().heapUsed).toBeLessThan(2 ** 30);
    peer.close();
  });

  test('can reply to unknown calls, and use an id twice, without harm', async () => {
    const { peer, say, answer } = peerByHand();
    const go = Promise.withResolvers<Record<string, never>>();
    peer.handle(Wait, () => go.promise).start();
    say({ id: 99, result: {} });
    say({ id: 'x', error: { code: 1, message: '' } });
    say({ id: null, error: { code: 1, message: '' } });
    say({ id: 1, method: 'wait' });
    say({ id: 1, method: 'wait' });
    expect(await answer()).toMatchObject({ id: null, error: { code: -32600 } });
    go.resolve({});
    expect(await answer()).toMatchObject({ id: 1, result: {} });
    peer.close();
  });

  test('that replies with a value that the schema refuses fails only that call', async () => {
    const { near, far } = peerPair();
    far
      .handle({ ...Add, result: z.unknown() }, () => ({ sum: 'many' }))
      .handle(Wait, () => ({}))
      .start();
    near.start();
    expect(await codeOf(near.call(Add, { a: 1, b: 1 }))).toBe('RUNNER_PROTOCOL');
    expect(await near.call(Wait, {})).toEqual({});
    near.close();
  });

  const Echo = { method: 'echo', params: z.object({ value: z.unknown() }), result: z.unknown() };

  test.each([
    ['nests a million deep', '['.repeat(1_000_000) + ']'.repeat(1_000_000)],
    ['sends a message of a million parts', `[${'{},'.repeat(1_000_000)}0]`],
  ])('that %s is cut off before anything is made of that', async (_what, value) => {
    const { peer, say, answer } = peerByHand();
    const heard = vi.fn();
    peer.handle(Echo, heard).start();
    const parse = vi.spyOn(JSON, 'parse');
    say(`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"value":${value}}}\n`);
    expect(await peer.closed).toMatchObject({ code: 'RUNNER_PROTOCOL' });
    expect(parse).not.toHaveBeenCalled();
    parse.mockRestore();
    expect(await answer()).toMatchObject({ id: null, error: { message: expect.stringContaining('too many parts') } });
    expect(heard).not.toHaveBeenCalled();
  });

  test('is not sent a message of 200,000 lists: the call fails', async () => {
    const { near, far } = peerPair();
    far.handle(Echo, ({ value }) => value).start();
    near.start();
    const value = Array.from({ length: 200_000 }, () => []);
    expect(await codeOf(near.call(Echo, { value }))).toBe('TOO_LARGE');
    expect(await near.call(Echo, { value: 'x'.repeat(1_000_000) })).toHaveLength(1_000_000);
    expect(await near.call(Echo, { value: Array.from({ length: 190_000 }, () => 0) })).toHaveLength(190_000);
    near.close();
  });

  test('that ends in the middle of a message is reported as such', async () => {
    const { peer, input, say } = peerByHand();
    peer.start();
    say('{"jsonrpc":"2.0","id"');
    input.end();
    expect((await peer.closed).message).toContain('in the middle of a message');
  });

  test('that sends an error with an unknown code violates the protocol', async () => {
    const { peer, say, answer } = peerByHand();
    peer.start();
    const call = peer.call(Wait, {}).catch((error: unknown) => error);
    const { id } = await answer();
    say({ id, error: { code: 12345, message: 'strange', data: { code: '__proto__', stack: 'at x' } } });
    expect(await call).toMatchObject({ code: 'RUNNER_PROTOCOL', message: 'strange', details: { rpc: 12345 } });
    peer.close();
  });
});
