import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { ApiClient } from './api-client.ts';
import { openRemoteTerminal } from './remote-workspace.ts';
import { subscribe } from './subscribe.ts';
import { MonitoredTransport, WebTransport } from './transport.ts';

/** To a server that sends these frames on every WebSocket. */
async function clientOf(...frames: readonly object[]): Promise<ApiClient> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => {
    for (const socket of server.clients) socket.terminate();
    server.close();
  });
  server.on('connection', (socket) => {
    for (const frame of frames) socket.send(JSON.stringify(frame));
  });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return new ApiClient(new MonitoredTransport(new WebTransport(`http://127.0.0.1:${port}`), 60_000));
}

const unknown = [
  { type: 'novelty', code: 1 },
  { type: 'heartbeat', everyMs: 20_000, more: true },
  { type: 'heartbeat', everyMs: 'often' },
];

test('an unknown frame does not end a terminal: only its exit does', async () => {
  const api = await clientOf(...unknown, { type: 'exit', code: 3 });
  const terminal = await openRemoteTerminal(api, 'ses_1', { cols: 80, rows: 24 }, new AbortController().signal);
  expect(await terminal.exited).toEqual({ code: 3 });
  await terminal.close();
});

test('an unknown frame does not end a follower of events', async () => {
  const event = { type: 'trimmed', throughSeq: 4 };
  const api = await clientOf(...unknown, event);
  const over = new AbortController();
  for await (const item of subscribe(api, 'ses_1', { after: 0, resumeMs: 1000, signal: over.signal })) {
    expect(item).toEqual(event);
    over.abort();
  }
});
