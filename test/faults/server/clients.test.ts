/** Clients of a server that are too many, too slow, half gone, or name things in ways that nobody expects. */

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { readLog } from '../../soak/log.ts';
import { Cella } from '../../support/cli/command.ts';
import { Served } from '../../support/servers/serve-process.ts';
import { CheckedSession, codeOf, endInOrder, newSession, pythonFlags, run } from './checked-session.ts';

const flags = [...pythonFlags, '--grace', '1'];

/** A connection on which a head was sent, and nothing after it. */
async function said(
  served: Served,
  lines: readonly string[],
  options: { allowHalfOpen?: boolean } = {},
): Promise<Socket> {
  const { hostname, port, host } = new URL(served.url);
  const socket = connect({ port: Number(port), host: hostname, ...options });
  socket.on('error', () => {}); // the server may end it
  await once(socket, 'connect');
  const [first = '', ...rest] = lines;
  socket.write([first, `Host: ${host}`, `Authorization: Bearer ${served.token}`, ...rest].join('\r\n'));
  return socket;
}

test('two thousand WebSockets, slow requests and a client that reads nothing affect no others, and shutdown works', async () => {
  using cella = new Cella();
  // None of them is refused for coming too fast: only for being one too many.
  const served = await Served.start(cella, [...flags, '--rate', '100000']);
  const session = await CheckedSession.of(served, 'crowded');
  await session.run("for n in range(60): display('x' * 900_000)");
  const slow = await Promise.all(
    Array.from({ length: 300 }, () => said(served, ['GET /v1/sessions HTTP/1.1', 'X-Slow: 1'])),
  );
  const unread = await said(served, [
    `GET /v1/sessions/${session.id}/events?after=0 HTTP/1.1`,
    'Accept: application/x-ndjson\r\n\r\n',
  ]);
  unread.pause();
  // From the end on: one that asks for what is not there yet is closed, and makes room for the next.
  const { last } = await served.ask<{ last: number }>(`GET /v1/sessions/${session.id}/events?limit=1`);
  const url = `${served.url.replace('http', 'ws')}/v1/sessions/${session.id}/ws?after=${last}`;
  const sockets: WebSocket[] = [];
  const outcomes = await Promise.all(
    Array.from({ length: 2000 }, async () => {
      const socket = new WebSocket(url, { headers: { authorization: `Bearer ${served.token}` } });
      sockets.push(socket);
      return await new Promise<number>((resolve) => {
        // It follows once it was told where the log is.
        socket.once('message', () => resolve(101));
        socket.once('unexpected-response', (_request, response) => resolve(response.statusCode ?? 0));
        socket.once('error', () => resolve(0));
        socket.once('close', () => resolve(0));
      });
    }),
  );
  const counts = (status: number) => outcomes.filter((one) => one === status).length;
  // The client that reads nothing has a place too, until the server lets it go.
  expect([999, 1000]).toContain(counts(101));
  expect(counts(429)).toBe(2000 - counts(101));
  // All at the same time: none of them has left its place to another.
  expect(sockets.filter(({ readyState }) => readyState === WebSocket.OPEN)).toHaveLength(counts(101));
  expect(await session.run('6 * 7')).toMatchObject({ value: 42 });
  await session.check();
  await endInOrder(served);
  for (const socket of sockets) socket.terminate();
  for (const socket of [...slow, unread]) socket.destroy();
});

test('a client that closes its sending side gets no response; its code runs, and its key returns the result', async () => {
  using cella = new Cella();
  const served = await Served.start(cella, flags);
  const id = await newSession(served);
  const body = JSON.stringify({ code: 'import time; time.sleep(0.2); kept = 7; kept' });
  const socket = await said(
    served,
    [
      `POST /v1/sessions/${id}/execute HTTP/1.1`,
      'Idempotency-Key: half',
      `Content-Length: ${body.length}\r\n\r\n${body}`,
    ],
    { allowHalfOpen: true },
  );
  socket.end();
  let answer = '';
  for await (const data of socket) answer += data;
  expect(answer).toBe('');
  const ended = async () => (await readLog(served, id)).filter(({ type }) => type === 'result').length;
  await expect.poll(ended).toBe(1);
  const again = await served.ask(`POST /v1/sessions/${id}/execute`, {
    body: JSON.parse(body),
    headers: { 'idempotency-key': 'half' },
  });
  expect(again).toMatchObject({ value: 7, replayed: true });
  expect(await ended()).toBe(1);
  await endInOrder(served);
});

const names: readonly (readonly [what: string, name: string])[] = [
  ['NUL', 'a\0b'],
  ['an emoji', '🦉🦉'],
  ['1024 characters', 'k'.repeat(1024)],
  ['1025 characters', 'k'.repeat(1025)],
  ['composed', 'caf\u00e9'],
  ['decomposed', 'cafe\u0301'],
  ['two dots', '..'],
  ['a path', '../../etc/passwd'],
  ['a lone surrogate', 'a\ud800b'],
  ['control characters', '\u001b[2J\r\n'],
];

test('whatever the name of a key, a file or an output, it works or is a named error, and no two collide', async () => {
  using cella = new Cella();
  const served = await Served.start(cella, flags);
  const codes = ['ok', 'INVALID_REQUEST', 'INVALID_OPTIONS', 'TOO_LARGE', 'FILE_NOT_FOUND', 'NOT_FOUND', 'FORBIDDEN'];
  const made = new Map<string, string>();
  for (const [what, name] of names) {
    const outcome = await served
      .ask<{ id: string }>('POST /v1/sessions', { body: { agentKey: name } })
      .then(({ id }) => made.set(what, id) && 'ok')
      .catch((error: { code: string }) => error.code);
    expect.soft(codes, `${what} as a key: ${outcome}`).toContain(outcome);
  }
  expect(new Set(made.values()).size).toBe(made.size);
  expect(made.get('composed')).not.toBe(made.get('decomposed'));
  const id = await newSession(served);
  for (const [what, name] of names) {
    const query = `path=${encodeURIComponent(name.toWellFormed())}`;
    const wrote = await codeOf(served.ask(`PUT /v1/sessions/${id}/files/content?${query}`, { body: what }));
    expect.soft(codes, `${what} as a file: ${wrote}`).toContain(wrote);
    const literal = JSON.stringify(name);
    expect.soft(await run(served, id, `print(${literal}.encode('utf-8', 'replace')); ${literal}`)).toMatchObject({
      status: 'ok',
    });
  }
  const log = await readLog(served, id);
  expect(log.filter(({ type }) => type === 'result')).toHaveLength(names.length);
  await endInOrder(served);
});
