/** Answers that nobody reads, or that are asked for in the wrong way: nothing of the server stays open for them. */

import { readdirSync, readlinkSync } from 'node:fs';
import { request } from 'node:http';
import { beforeAll, expect, test } from 'vitest';
import { Daemon } from '../support/daemon.ts';
import { until } from './session-hosts.ts';

let daemon: Daemon;
let id = '';
beforeAll(async () => {
  daemon = await Daemon.start();
  ({ id } = await daemon.session());
  await daemon.run(id, 'open("empty", "w").close(); f = open("large", "wb"); f.truncate(256 << 20); f.close()');
});

/** The server runs in this process. */
function isOpen(name: string): boolean {
  return readdirSync('/proc/self/fd').some((fd) => targetOf(fd).endsWith(`/${name}`));
}

function targetOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return ''; // closed meanwhile
  }
}

const content = (name: string): string => `/v1/sessions/${id}/files/content?path=${name}`;

test('HEAD leaves no watch behind: the session can still be watched', async () => {
  const path = `/v1/sessions/${id}/files/watch?path=`;
  for (let n = 0; n < 40; n++) expect((await daemon.call(`HEAD ${path}`)).status).toBe(200);
  const over = new AbortController();
  expect((await daemon.fetch(`GET ${path}`, { signal: over.signal })).status).toBe(200);
  over.abort();
});

test('of many that watch at once, no more get in than may', async () => {
  const over = new AbortController();
  const watching = Array.from({ length: 100 }, () =>
    daemon.fetch(`GET /v1/sessions/${id}/files/watch?path=`, { signal: over.signal }),
  );
  const statuses = (await Promise.all(watching)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(32);
  over.abort();
  await until(
    async () => (await daemon.call('GET /metrics')).text,
    (text) => !/cella_clients\{kind="ndjson"\} [1-9]/.test(text),
  );
  // One that fails at once leaves its place.
  for (let n = 0; n < 40; n++) {
    expect((await daemon.call(`GET /v1/sessions/${id}/files/watch?path=none`)).status).toBe(404);
  }
});

test('HEAD of events leaves no client behind', async () => {
  const headers = { accept: 'application/x-ndjson' };
  for (let n = 0; n < 10; n++) await daemon.call(`HEAD /v1/sessions/${id}/events`, { headers });
  await until(
    async () => (await daemon.call('GET /metrics')).text,
    (text) => !/cella_clients\{kind="ndjson"\} [1-9]/.test(text),
  );
});

test.each(['HEAD large', 'GET empty'])('%s leaves no file open', async (what) => {
  const [method, name = ''] = what.split(' ');
  for (let n = 0; n < 5; n++) await daemon.call(`${method} ${content(name)}`);
  await until(
    async () => isOpen(name),
    (open) => !open,
  );
});

test('a request for an upgrade where there is no WebSocket is refused, and its answer not gathered', async () => {
  const asked = request(new URL(content('large'), daemon.url), {
    headers: {
      authorization: `Bearer ${daemon.token}`,
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      'sec-websocket-version': '13',
    },
  });
  const before = process.memoryUsage.rss();
  const status = await new Promise<number | undefined>((resolve, reject) => {
    asked.on('response', (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    asked.on('error', reject);
    asked.end();
  });
  expect(status).toBe(400);
  expect(process.memoryUsage.rss() - before).toBeLessThan(128 << 20);
});
