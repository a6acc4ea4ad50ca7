import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { CellaError } from '../../protocol/errors.ts';
import { RunnerListener } from './runner-listener.ts';

const binding = { session: 'ses_0000000000000001', runner: 'rnr_one' };

const PIECE = 1024 * 1024;

async function open() {
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
    mcp: async (message, as) => new Response(`mcp for ${as.session}${await message.text()}`),
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
  for (let left = bytes ?? 0; left > 0; left -= PIECE) asked.write(Buffer.alloc(Math.min(left, PIECE)));
  asked.end();
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
  const all = Array.from({ length: 6 }, () => begun(gate, 15 * PIECE));
  expect(await Promise.race(all.map(({ answered }) => answered))).toBe(429);
  for (const { leave } of all) leave();
  await expect.poll(async () => (await ask(gate, '/mcp', 'cst_good', 16 * PIECE)).status).toBe(200);
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
  const { status, body } = await ask(gate, '/mcp', 'cst_good', 16 * PIECE);
  expect([status, body.length]).toEqual([200, `mcp for ${binding.session}`.length + 16 * PIECE]);
  expect(await ask(gate, '/mcp', 'cst_good', 16 * PIECE + 1)).toMatchObject({
    status: 413,
    body: expect.stringContaining('TOO_LARGE'),
  });
});
