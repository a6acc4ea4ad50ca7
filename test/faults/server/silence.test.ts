/** A client notices a server that was stopped, and a network that drops everything. A server that is busy is waited for. */

import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ApiClient } from '../../../src/client/api-client.ts';
import { type Client, connect } from '../../../src/client/index.ts';
import { subscribe } from '../../../src/client/subscribe.ts';
import { MonitoredTransport, type Transport, WebTransport } from '../../../src/client/transport.ts';
import { Cella } from '../../support/cli/command.ts';
import { CuttingProxy } from '../../support/servers/cutting-proxy.ts';
import { Served } from '../../support/servers/serve-process.ts';
import { TestServer } from '../../support/servers/server.ts';
import { pythonFlags } from './checked-session.ts';

const limits = { idleTimeoutMs: 1500, resumeMs: 1500 };
const gone = { code: 'SERVER_UNREACHABLE' };

const ways: readonly (readonly [way: string, connect: (served: Served) => Promise<Client>])[] = [
  ['socket', (served) => connect({ socket: join(served.dataDir, 'daemon.sock'), ...limits })],
  ['address', (served) => connect({ url: served.url, token: served.token, ...limits })],
];

describe.each(ways)('by its %s', (_way, connectTo) => {
  test('a request, running code, a follower and a terminal end when the server is stopped', async () => {
    using cella = new Cella();
    const served = await Served.start(cella, pythonFlags);
    try {
      await using client = await connectTo(served);
      const session = await client.open({ agentKey: 'silent' });
      const terminal = await session.terminal({ cols: 80, rows: 24 });
      const events = session.events({ after: 0 });
      await events.next();
      const cell = session.run('import time\nprint("begun", flush=True)\ntime.sleep(600)');
      cell.catch(() => {}); // looked at below
      const following = (async () => {
        for await (const event of events) if ('type' in event && event.type === 'stdout') break;
        served.started.child.kill('SIGSTOP');
        for await (const _ of session.events({ after: 1_000_000 }));
      })();
      following.catch(() => {}); // looked at below
      await expect(terminal.exited).rejects.toMatchObject(gone);
      await expect(cell).rejects.toMatchObject(gone);
      await expect(following).rejects.toMatchObject(gone);
      await expect(client.server.status()).rejects.toMatchObject(gone);
    } finally {
      await served.kill();
    }
  }, 60_000);

  test('code without output for longer than the silence timeout is not interrupted', async () => {
    using cella = new Cella();
    await using served = await Served.start(cella, pythonFlags);
    await using client = await connectTo(served);
    const session = await client.open({ agentKey: 'slow' });
    expect(await session.run('import time\ntime.sleep(5)\n42')).toMatchObject({ value: 42 });
  }, 60_000);
});

const told = (event: object) => ('text' in event && typeof event.text === 'string' ? event.text : undefined);

describe('a WebSocket without data, while the server answers elsewhere,', () => {
  /** A session by way of the proxy, and the same by a connection of its own. */
  async function sessions(stack: AsyncDisposableStack) {
    const server = stack.use(await TestServer.start({ limits: { heartbeatMs: 200 } }));
    const proxy = stack.use(await CuttingProxy.to(server.url));
    const options = { token: server.token, idleTimeoutMs: 1000, resumeMs: 30_000 };
    const client = stack.use(await connect({ url: proxy.url, ...options }));
    const direct = stack.use(await connect({ url: server.url, ...options }));
    const agentKey = 'half-open';
    return { server, proxy, session: await client.open({ agentKey }), other: await direct.open({ agentKey }) };
  }

  test('is reopened by a follower, which gets every event once', async () => {
    await using stack = new AsyncDisposableStack();
    const { server, proxy, session, other } = await sessions(stack);
    const begun = Promise.withResolvers<void>();
    const following = (async () => {
      const numbers: number[] = [];
      for await (const event of session.events({ after: 0 })) {
        if ('seq' in event) numbers.push(event.seq);
        if (told(event) === 'first\n') begun.resolve();
        if (told(event) === 'last\n') return numbers;
      }
      throw new Error('it ended before the last event');
    })();
    await other.run('print("first")');
    await begun.promise;
    proxy.silence();
    for (const text of ['second', 'third', 'last']) await other.run(`print("${text}")`);
    const numbers = await following;
    expect(numbers).toEqual(numbers.map((_, at) => at + 1));
    // The server lets the silent one go, too.
    await expect
      .poll(async () => (await server.call('GET /metrics')).text)
      .toContain('cella_clients{kind="websocket"} 0');
  });

  test('ends a terminal with an error', async () => {
    await using stack = new AsyncDisposableStack();
    const { proxy, session } = await sessions(stack);
    const terminal = await session.terminal({ cols: 80, rows: 24 });
    for await (const _ of terminal.output) break;
    proxy.silence();
    await expect(terminal.exited).rejects.toMatchObject({ ...gone, message: expect.stringContaining('broken') });
  });

  test('is reopened by a follower if its opening gets no answer', async () => {
    await using stack = new AsyncDisposableStack();
    const { proxy, session } = await sessions(stack);
    await session.run('1'); // tells the client the interval of heartbeats
    proxy.silenceAfter = /^GET \S*\/ws\?/;
    const events = session.events({ after: 0 });
    const first = events.next();
    const before = proxy.connections;
    await expect.poll(() => proxy.connections - before).toBeGreaterThan(2);
    proxy.silenceAfter = undefined;
    expect(await first).toMatchObject({ done: false });
    await events.return(undefined);
  });

  test('makes `terminal` reject if its opening gets no answer', async () => {
    await using stack = new AsyncDisposableStack();
    const { proxy, session } = await sessions(stack);
    await session.run('1');
    proxy.silenceAfter = /^GET \S*\/terminal\?/;
    await expect(session.terminal({ cols: 80, rows: 24 })).rejects.toMatchObject(gone);
  });

  test('stays open while heartbeats arrive, however quiet the session is', async () => {
    await using stack = new AsyncDisposableStack();
    const { proxy, session } = await sessions(stack);
    const events = session.events({ after: 0 });
    const first = events.next();
    const terminal = await session.terminal({ cols: 80, rows: 24, argv: ['sh', '-c', 'sleep 4; exit 7'] });
    await first;
    const before = proxy.connections;
    expect(await terminal.exited).toEqual({ code: 7 });
    expect(proxy.connections - before).toBeLessThanOrEqual(1);
    await events.return(undefined);
  });
});

describe('an HTTP stream without data, while the server answers elsewhere,', () => {
  async function start(stack: AsyncDisposableStack) {
    const server = stack.use(await TestServer.start({ limits: { heartbeatMs: 200 } }));
    const proxy = stack.use(await CuttingProxy.to(server.url));
    const options = { token: server.token, idleTimeoutMs: 1000, resumeMs: 30_000 };
    const client = stack.use(await connect({ url: proxy.url, ...options }));
    return { server, proxy, session: await client.open({ agentKey: 'half-open' }) };
  }

  test('is reopened by a caller of code, which runs once and gets every event once', async () => {
    await using stack = new AsyncDisposableStack();
    const { server, proxy, session } = await start(stack);
    const direct = (name: string) =>
      server.call(`PUT /v1/sessions/${session.id}/files/content?path=${name}`, { body: 'x' });
    const code = `
import os, time
print("begun", flush=True)
for name in ("a", "b"):
    while not os.path.exists(name): time.sleep(0.05)
    print(name, flush=True)
runs = globals().get("runs", 0) + 1
runs`;
    const texts: string[] = [];
    const reached = new Map(['begun\n', 'a\n'].map((text) => [text, Promise.withResolvers<void>()]));
    const running = session.run(code, {
      onEvent: (event) => {
        const text = told(event);
        if (text === undefined) return;
        texts.push(text);
        reached.get(text)?.resolve();
      },
    });
    await reached.get('begun\n')?.promise;
    expect(proxy.silence(/^POST \S*\/execute /)).toBe(1);
    await direct('a');
    // By the second connection: the events of the execution after those that came.
    await reached.get('a\n')?.promise;
    expect(proxy.silence(/^GET \S*\/events\?/)).toBe(1);
    await direct('b');
    expect(await running).toMatchObject({ value: 1, stdout: 'begun\na\nb\n' });
    expect(texts.join('')).toBe('begun\na\nb\n');
  });

  test('is reopened even if no response began, and the code runs once', async () => {
    await using stack = new AsyncDisposableStack();
    const { server, proxy, session } = await start(stack);
    // A server that never sent signs of life is not expected to.
    await session.run('runs = 0');
    proxy.silenceAfter = /^POST \S*\/execute /;
    const running = session.run('print("begun"); runs += 1; runs');
    await expect.poll(async () => (await server.call(`GET /v1/sessions/${session.id}/events`)).text).toContain('begun');
    proxy.silenceAfter = undefined;
    expect(await running).toMatchObject({ value: 1, stdout: 'begun\n' });
  });

  test('is reopened by a follower of NDJSON events, which gets every event once', async () => {
    await using stack = new AsyncDisposableStack();
    const { server, proxy, session } = await start(stack);
    proxy.cut();
    const web = new WebTransport(proxy.url, server.token);
    // As in a page with a token, whose WebSockets cannot say who they are.
    const withoutSockets: Transport = {
      address: web.address,
      allowsManyConnections: true,
      request: (request) => web.request(request),
      socket: () => undefined,
      close: () => web.close(),
    };
    const link = new ApiClient(new MonitoredTransport(withoutSockets, 1000));
    const over = new AbortController();
    const begun = Promise.withResolvers<void>();
    const following = (async () => {
      const numbers: number[] = [];
      for await (const event of subscribe(link, session.id, { after: 0, resumeMs: 30_000, signal: over.signal })) {
        if ('seq' in event) numbers.push(event.seq);
        if (told(event) === 'first\n') begun.resolve();
        if (told(event) === 'last\n') return numbers;
      }
      throw new Error('it ended before the last event');
    })();
    await server.run(session.id, 'print("first")');
    await begun.promise;
    expect(proxy.silence(/^GET \S*\/events\?/)).toBe(1);
    for (const text of ['second', 'third', 'last']) await server.run(session.id, `print("${text}")`);
    const numbers = await following;
    expect(numbers).toEqual(numbers.map((_, at) => at + 1));
  });

  test('ends a watch of files with an error', async () => {
    await using stack = new AsyncDisposableStack();
    const { proxy, session } = await start(stack);
    const changes = session.files.watch();
    expect(await changes.next()).toMatchObject({ value: { type: 'watching' } });
    expect(proxy.silence(/^GET \S*\/files\/watch\?/)).toBe(1);
    await expect(changes.next()).rejects.toMatchObject({ ...gone, message: expect.stringContaining('broken') });
  });

  test('stays open while heartbeats arrive, however quiet it is', async () => {
    await using stack = new AsyncDisposableStack();
    const { proxy, session } = await start(stack);
    const changes = session.files.watch();
    await changes.next();
    const next = changes.next();
    const before = proxy.connections;
    expect(await session.run('import time; time.sleep(4); 42')).toMatchObject({ value: 42 });
    expect(proxy.connections - before).toBeLessThanOrEqual(1);
    await session.files.write('new.txt', 'x');
    expect(await next).toMatchObject({ value: { type: 'created', path: 'new.txt' } });
    await changes.return(undefined);
  });
});
