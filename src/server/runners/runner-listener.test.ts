import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { CellaError } from '../../protocol/errors.ts';
import { readMessage } from '../mcp-endpoints.ts';
import { UnreadLimit } from '../unread-limit.ts';
import { RunnerListener } from './runner-listener.ts';

const binding = { session: 'ses_0000000000000001', runner: 'rnr_one' };

const PIECE = 1024 * 1024;

const UNREAD = 8 * PIECE;

type Mcp = Parameters<typeof RunnerListener.open>[0]['mcp'];
const echo: Mcp = async (asked, { session }, hold) => {
  const message = await readMessage(asked, hold);
  return new Response(`mcp for ${session}${message === undefined ? '' : ` of ${String(message).length}`}`);
};

async function open(mcp = echo) {
  const folder = mkdtempSync(join(tmpdir(), 'cella-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const gate = await RunnerListener.open({
    folder: join(folder, 'gates'),
    binding,
    hasNetwork: false,
    tokens: {
      check: async (token, expected) => {
        if (token !== 'cst_good') throw new CellaError('UNAUTHENTICATED', 'This session token is unknown.');
        return { turn: 'trn_0000000000000001', userId: 'local', ...binding, ...expected };
      },
    },
    models: (incoming, response, { runner }) => {
      if (!incoming.url?.startsWith('/anthropic/')) return false;
      response.end(`model for ${runner}`);
      return true;
    },
    mcp,
    unread: new UnreadLimit(UNREAD),
    onError: (error) => expect.unreachable(String(error)),
  });
  onTestFinished(() => gate[Symbol.asyncDispose]());
  return gate;
}

async function ask(gate: RunnerListener, path: string, token?: string, bytes?: number) {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const asked = request({
    socketPath: join(gate.folder, 'socket'),
    path,
    headers,
    agent: false,
    method: bytes === undefined ? 'GET' : 'POST',
  });
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number | undefined; body: string }>();
  asked.on('error', reject);
  asked.on('response', async (answer) => resolve({ status: answer.statusCode, body: await text(answer) }));
  // Without a length: in pieces.
  for (let left = (bytes ?? 0) - 2; left > 0; left -= PIECE) {
    if (left === (bytes ?? 0) - 2) asked.write('"');
    asked.write(Buffer.alloc(Math.min(left, PIECE), 'x'));
  }
  asked.end(bytes === undefined ? undefined : '"');
  return await promise;
}

test('it reaches models and the session’s own MCP server, the latter only with its own tokens, and nothing else', async () => {
  const gate = await open();
  expect(await ask(gate, '/anthropic/v1/messages')).toEqual({ status: 200, body: 'model for rnr_one' });
  expect(await ask(gate, '/mcp', 'cst_good')).toEqual({ status: 200, body: `mcp for ${binding.session}` });
  expect((await ask(gate, '/mcp', 'cst_other')).status).toBe(401);
  expect((await ask(gate, '/mcp')).status).toBe(401);
  expect((await ask(gate, '/v1/sessions', 'cst_good')).status).toBe(404);
  expect((await ask(gate, '/mcp/../v1/sessions', 'cst_good')).status).toBe(404);
});

test('after a restart it listens again, at the same path', async () => {
  const gate = await open();
  const { folder } = gate;
  await gate.restart();
  expect(gate.folder).toBe(folder);
  expect((await ask(gate, '/mcp', 'cst_good')).status).toBe(200);
});

/** Sends that many bytes of a message, and never its end. Gives what it is answered with, once that comes. */
function begun(gate: RunnerListener, bytes: number) {
  const headers = { authorization: 'Bearer cst_good' };
  const asked = request({
    socketPath: join(gate.folder, 'socket'),
    path: '/mcp',
    headers,
    agent: false,
    method: 'POST',
  });
  const { promise, resolve } = Promise.withResolvers<number | undefined>();
  asked.on('error', () => {}); // it is cut off in the end
  asked.on('response', (answer) => resolve(answer.resume().statusCode));
  asked.write(Buffer.alloc(bytes));
  onTestFinished(() => void asked.destroy());
  return { answered: promise, leave: () => asked.destroy() };
}

test('messages that never end wait at a total of bytes, and free it when they disconnect', async () => {
  const gate = await open();
  const all = Array.from({ length: 20 }, () => begun(gate, 3.9 * PIECE));
  expect(await Promise.race(all.map(({ answered }) => answered))).toBe(429);
  for (const { leave } of all) leave();
  await expect.poll(async () => (await ask(gate, '/mcp', 'cst_good', 4 * PIECE)).status).toBe(200);
});

test('a message of 300,000 parts is not forwarded', async () => {
  const gate = await open();
  const { promise, resolve } = Promise.withResolvers<number | undefined>();
  const asked = request({
    ...{ socketPath: join(gate.folder, 'socket'), path: '/mcp', agent: false, method: 'POST' },
    headers: { authorization: 'Bearer cst_good' },
  });
  asked.on('response', (answer) => resolve(answer.resume().statusCode));
  asked.end(`[${'{},'.repeat(300_000)}0]`);
  expect(await promise).toBe(413);
});

test('a message without a length is read only up to the limit', async () => {
  const gate = await open();
  const answered = { status: 200, body: `mcp for ${binding.session} of ${4 * PIECE - 2}` };
  expect(await ask(gate, '/mcp', 'cst_good', 4 * PIECE)).toEqual(answered);
  expect(await ask(gate, '/mcp', 'cst_good', 4 * PIECE + 1)).toMatchObject({
    status: 413,
    body: expect.stringContaining('TOO_LARGE'),
  });
});

test('answers that a runner does not read take a limited part of the memory, and others can be read', async () => {
  const { promise: sixCut, resolve } = Promise.withResolvers<void>();
  let cut = 0;
  // In one piece, as results of MCP calls are sent.
  const large = (isWhole: boolean) =>
    new ReadableStream({
      start: (controller) => {
        controller.enqueue(Buffer.alloc(UNREAD / 2));
        if (isWhole) controller.close();
      },
      cancel: () => void (++cut === 6 && resolve()),
    });
  const gate = await open(async ({ url }) => new Response(large(url.endsWith('whole'))));
  for (let n = 0; n < 8; n++) {
    const socket = connect(join(gate.folder, 'socket')).on('error', () => {}); // it is cut off
    onTestFinished(() => void socket.destroy());
    socket.write('GET /mcp HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer cst_good\r\n\r\n');
    await once(socket, 'data');
    socket.pause();
  }
  await sixCut;
  expect((await ask(gate, '/mcp?whole', 'cst_good')).body).toHaveLength(UNREAD / 2);
});
