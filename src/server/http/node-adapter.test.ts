import { once } from 'node:events';
import { get, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { UnreadLimit } from '../unread-limit.ts';
import { textResponse } from './bodies.ts';
import { createNodeServer } from './node-adapter.ts';

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
  server = undefined;
});

const limits = {
  frameLimitBytes: 1024,
  slowClientTimeoutMs: 30_000,
  unread: new UnreadLimit(1024 ** 3),
  onSlow: () => {},
};

async function listen(
  fetch: Parameters<typeof createNodeServer>[0]['fetch'],
  more: Partial<typeof limits> = {},
): Promise<string> {
  const onError = (error: unknown) => expect.unreachable(String(error));
  server = createNodeServer({ listener: 'network', fetch, ...limits, ...more, onError });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Ends only if it is cancelled. */
function endless() {
  const cancelled = Promise.withResolvers<void>();
  const pull = (controller: ReadableStreamDefaultController) => controller.enqueue(new Uint8Array(65_536));
  return { body: new ReadableStream({ pull, cancel: () => cancelled.resolve() }), cancelled: cancelled.promise };
}

it('a client that disconnects before its response begins leaves no stream open', async () => {
  const { body, cancelled } = endless();
  const asked = Promise.withResolvers<void>();
  const url = await listen(async (_, { socket }) => {
    const gone = once(socket, 'close');
    asked.resolve();
    await gone;
    return new Response(body);
  });
  const request = get(url).on('error', () => {}); // its own end
  await asked.promise;
  request.destroy();
  await cancelled;
});

it('a client that disconnects while it reads leaves no stream open', async () => {
  const { body, cancelled } = endless();
  const url = await listen(() => new Response(body));
  const request = get(url);
  const [response] = await once(request, 'response');
  await once(response, 'data');
  request.destroy();
  await cancelled;
});

it('a stream that fails cuts the response', async () => {
  const fails = async (controller: ReadableStreamDefaultController) => {
    controller.enqueue(Buffer.from('begun'));
    await new Promise((resolve) => setImmediate(resolve));
    controller.error(new Error('the disk is gone'));
  };
  const url = await listen(() => new Response(new ReadableStream({ start: fails })));
  const response = await fetch(url);
  await expect(response.text()).rejects.toThrow();
});

it('a stream is sent completely, with its headers', async () => {
  const headers = new Headers({ 'content-type': 'text/plain', 'x-one': '1' });
  headers.append('set-cookie', 'a=1');
  headers.append('set-cookie', 'b=2');
  const text = 'word '.repeat(100_000);
  const url = await listen(() => new Response(new Blob([text]).stream(), { status: 201, headers }));
  const response = await fetch(url);
  expect([response.status, response.headers.get('x-one')]).toEqual([201, '1']);
  expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
  expect(await response.text()).toBe(text);
});

/** More than the buffers of a connection take. */
const LARGE = 32 * 1024 ** 2;
/** Enough for a download, and little enough that the buffers take it at once, however busy this process is. */
const DOWNLOADED = 128 * 1024;

/** Asks, and reads nothing of what it gets. */
function unread(url: string): Disposable {
  const { hostname, port, host, pathname } = new URL(url);
  const socket = connect(Number(port), hostname).pause();
  socket.on('error', () => {}); // it is cut off
  socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  return { [Symbol.dispose]: () => socket.destroy() };
}

it('a text for a client that has disconnected cuts off no other client', async () => {
  const limit = new UnreadLimit(DOWNLOADED);
  const [asked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const url = await listen(
    async (_, { socket }) => {
      const gone = once(socket, 'close');
      asked.resolve();
      await gone;
      setImmediate(answered.resolve);
      return textResponse('x'.repeat(DOWNLOADED), {});
    },
    { unread: limit },
  );
  let isCut = false;
  using _other = limit.hold('', DOWNLOADED, () => {
    isCut = true;
  });
  const request = get(url).on('error', () => {}); // its own end
  await asked.promise;
  request.destroy();
  await answered.promise;
  expect(isCut).toBe(false);
});

/** Resolves when so many clients were cut off because they did not read. */
function cutOff(count: number) {
  const all = Promise.withResolvers<void>();
  let left = count;
  return { onSlow: () => void (--left === 0 && all.resolve()), all: all.promise };
}

it.each([
  ['a text', () => textResponse('x'.repeat(LARGE), {})],
  [
    'pieces',
    () =>
      textResponse(
        Array.from({ length: 64 }, () => Buffer.alloc(LARGE / 64)),
        {},
      ),
  ],
  ['a download', () => new Response(endless().body, { headers: { 'content-length': String(LARGE) } })],
])('%s that nobody reads is given up, and one for which the server takes as long is not', async (_what, make) => {
  const { onSlow, all } = cutOff(1);
  const slow = async (controller: ReadableStreamDefaultController) => {
    await all;
    controller.enqueue(Buffer.alloc(DOWNLOADED));
    controller.close();
  };
  const headers = { 'content-length': String(DOWNLOADED) };
  const url = await listen(
    ({ url: asked }) =>
      asked.endsWith('slow')
        ? new Response(new ReadableStream({ pull: slow }, { highWaterMark: 0 }), { headers })
        : make(),
    { slowClientTimeoutMs: 50, onSlow },
  );
  const patient = await fetch(`${url}/slow`);
  using _client = unread(`${url}/unread`);
  await all;
  expect((await patient.arrayBuffer()).byteLength).toBe(DOWNLOADED);
});

it('unread responses of one user take a limited part of the memory, and none of others', async () => {
  const { onSlow, all } = cutOff(3);
  const begun = Promise.withResolvers<void>();
  const url = await listen(
    ({ url: asked }, bindings) => {
      bindings.userId = asked.endsWith('other') ? 'other' : 'one';
      if (asked.endsWith('other')) begun.resolve();
      return textResponse('x'.repeat(LARGE), {});
    },
    { unread: new UnreadLimit(2 * LARGE), onSlow },
  );
  const answered = once(get(`${url}/other`), 'response');
  await begun.promise;
  using clients = new DisposableStack();
  for (let n = 0; n < 5; n++) clients.use(unread(`${url}/one`));
  await all;
  const [response] = await answered;
  let bytes = 0;
  for await (const piece of response) bytes += piece.length;
  expect(bytes).toBe(LARGE);
});
