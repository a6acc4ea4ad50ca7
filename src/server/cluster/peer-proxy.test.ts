import { getEventListeners, once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { CloseCode } from '../../protocol/api/socket-frames.ts';
import { ByteLimit } from '../request-limits.ts';
import { UnreadLimit } from '../unread-limit.ts';
import { endToEndHeaders, listItems, openSocket, proxySocket } from './peer-proxy.ts';

it('forwards end-to-end headers, and not those of one connection', () => {
  const headers = { connection: ['Keep-Alive, X-Own'], 'x-own': ['1'], 'x-mine': ['2'], host: ['here'] };
  expect(endToEndHeaders(headers)).toEqual({ 'x-mine': ['2'] });
});

it('parses a list of the maximum header length quickly, whatever it contains', () => {
  const timed = (text: string): number => {
    const began = performance.now();
    for (let n = 0; n < 50; n++) listItems(text);
    return performance.now() - began;
  };
  timed('a, b');
  const plain = timed('a,'.repeat(8000));
  // One that looks back from every blank takes thousands of times as long.
  expect(timed(`a${' '.repeat(16_000)}b`)).toBeLessThan(10 * plain);
});

const server = createServer();
let url = '';
beforeAll(async () => {
  server.on('upgrade', (_request, socket) => socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
});
afterAll(() => server.close());

const target = (protocols: string[], gone = new AbortController().signal) => {
  return { url, path: '/', headers: {}, protocols, gone };
};

it('returns the refusal of the other server, and then waits for nothing more', async () => {
  const { signal } = new AbortController();
  const refusal = await openSocket(target([], signal));
  expect(refusal).toBeInstanceOf(Response);
  expect(refusal).toMatchObject({ status: 404 });
  await expect.poll(() => getEventListeners(signal, 'abort').length).toBe(0);
});

it('refuses invalid WebSocket protocols', async () => {
  await expect(openSocket(target(['a', 'a']))).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
});

it('disconnects a client whose messages the other server does not read, if they take too much memory', async () => {
  const servers = [new WebSocketServer({ port: 0 }), new WebSocketServer({ port: 0 })];
  const [front, back] = servers as [WebSocketServer, WebSocketServer];
  const at = (to: WebSocketServer) => `ws://127.0.0.1:${(to.address() as AddressInfo).port}`;
  back.on('connection', (socket) => socket.pause());
  const onRefused = vi.fn<(reason: string) => void>();
  const held = new ByteLimit(32 * PIECE.length);
  const { signal } = new AbortController();
  const limits = { slowClientTimeoutMs: 60_000, bufferBytes: 8 * PIECE.length, gone: signal, closing: signal };
  front.on('connection', async (client) => {
    client.pause();
    const owner = await openSocket({ ...target([]), url: at(back).replace('ws', 'http') });
    if (owner instanceof Response) throw new Error('it was refused');
    proxySocket(client, owner, { ...limits, ...counting(held), onRefused });
    client.resume();
  });
  const clients = Array.from({ length: 8 }, () => new WebSocket(at(front)));
  const closed = clients.map((client) => new Promise((resolve) => client.once('close', resolve)));
  for (const client of clients) client.once('open', () => pour(client));
  expect(await Promise.race(closed)).toBe(CloseCode.tooMuch);
  expect(onRefused).toHaveBeenCalledWith('unread messages use too much memory');
  // What does not read does not see who has gone.
  for (const client of [...clients, ...front.clients, ...back.clients]) client.terminate();
  await expect.poll(() => front.clients.size).toBe(0);
  expect(() => held.reserve('somebody').resize(32 * PIECE.length)).not.toThrow();
  for (const one of servers) one.close();
});

const counting = (held: ByteLimit, unread = new UnreadLimit(Infinity)) => ({
  hold: held.reserve('somebody'),
  unread: (cut?: () => void) => unread.open('somebody', cut),
  canResume: true,
});

it('reads no more for a client that reads nothing than its user may leave unread, and cuts it if others need that', async () => {
  const servers = [new WebSocketServer({ port: 0 }), new WebSocketServer({ port: 0 })];
  const [front, back] = servers as [WebSocketServer, WebSocketServer];
  const at = (to: WebSocketServer) => `ws://127.0.0.1:${(to.address() as AddressInfo).port}`;
  let poured = 0;
  back.on('connection', (socket) => pour(socket, () => poured++));
  const unread = new UnreadLimit(4 * PIECE.length);
  const { signal } = new AbortController();
  const limits = { slowClientTimeoutMs: 60_000, bufferBytes: 1000 * PIECE.length, gone: signal, closing: signal };
  front.on('connection', async (client) => {
    client.pause();
    const owner = await openSocket({ ...target([]), url: at(back).replace('ws', 'http') });
    if (owner instanceof Response) throw new Error('it was refused');
    proxySocket(client, owner, { ...limits, ...counting(new ByteLimit(Infinity), unread), onRefused: () => {} });
    client.resume();
  });
  const client = new WebSocket(at(front));
  client.once('open', () => client.pause());
  const closed = once(client, 'close');
  const other = unread.open('somebody');
  await expect.poll(() => other.isFull).toBe(true);
  // What the connections hold beside it.
  expect(poured).toBeLessThan(200);
  using _room = await other.reserve(4 * PIECE.length);
  client.resume();
  expect([CloseCode.slow, 1006]).toContain((await closed)[0]);
  for (const one of [...front.clients, ...back.clients]) one.terminate();
  for (const one of servers) one.close();
});

const PIECE = Buffer.alloc(256 * 1024);

/** As much as is taken, and no more. */
function pour(client: WebSocket, onTaken = () => {}): void {
  client.send(PIECE, (error) => {
    if (error) return;
    onTaken();
    pour(client, onTaken);
  });
}
