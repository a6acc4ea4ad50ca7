/** Requests to the server: requests that are two, bodies of any shape, and what operators read. */

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once as happens } from 'node:events';
import { connect } from 'node:net';
import { expect } from 'vitest';
import { AUDIT_KEY } from '../../src/server/access/audit-log.ts';
import { FileStorage } from '../../src/storage/file/file-storage.ts';
import { once, type Row } from './row.ts';
import type { World } from './world.ts';

const FRAMES = 'A request is exactly one request, and its origin is checked.';
const OPERATOR = 'Users cannot forge or flood logs, metrics and the audit log.';
const BODIES = 'A body of any shape is refused or accepted, without side effects.';

function row(name: string, promise: string, attempt: (world: World) => Promise<void>, options: Partial<Row> = {}): Row {
  return { name, promise, on: once, ...options, attempt };
}

/** Bytes as they are, to the server; gives the whole answer. */
export async function raw(world: World, text: string | Buffer, { ms = 3000 } = {}): Promise<string> {
  const { hostname, port } = new URL(world.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {}); // it was cut off
  let answer = '';
  socket.setEncoding('latin1').on('data', (part: string) => {
    answer += part;
  });
  const closed = new Promise((resolve) => socket.on('close', resolve));
  await happens(socket, 'connect');
  socket.write(text);
  const timer = setTimeout(() => socket.destroy(), ms);
  await closed;
  clearTimeout(timer);
  world.seen.push(answer);
  return answer;
}

const statusOf = (answer: string): number => Number(/^HTTP\/1\.[01] (\d+)/.exec(answer)?.[1] ?? 0);

const two = (world: World, lines: readonly string[], body = ''): string => {
  const { host } = new URL(world.url);
  return [...lines, `Host: ${host}`, `Authorization: Bearer ${world.mallory.token}`, '', body].join('\r\n');
};

const framing: Row[] = [
  ...(
    [
      ['two lengths', ['Content-Length: 5', 'Content-Length: 60']],
      ['a length and chunks', ['Content-Length: 5', 'Transfer-Encoding: chunked']],
      ['chunks in odd spelling', ['Transfer-Encoding: xchunked']],
      ['chunks twice', ['Transfer-Encoding: chunked, identity']],
      ['a length with a sign', ['Content-Length: +5']],
      ['a length in hex', ['Content-Length: 0x5']],
      ['a folded header', ['X-One: a', ' b: c', 'Content-Length: 5']],
      ['a space before the colon', ['Content-Length : 5']],
      ['a bare line feed', ['X: y\nContent-Length: 5']],
    ] as const
  ).map(([name, lines]) =>
    row(`hides a second request behind ${name}`, FRAMES, async (world) => {
      const inner = `GET /v1/sessions/${world.victoria.session} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${world.mallory.token}\r\n\r\n`;
      const answer = await raw(world, two(world, ['POST /v1/login-codes HTTP/1.1', ...lines], `0\r\n\r\n${inner}`));
      // Either it is refused, or its body is its body: nothing of the second is answered with what is there.
      expect(answer).not.toContain('"agentKey"');
      expect(answer.match(/HTTP\/1\.1 2\d\d/g)?.length ?? 0).toBeLessThanOrEqual(1);
    }),
  ),
  row(
    'names another host, as in DNS rebinding',
    FRAMES,
    async (world) => {
      for (const host of [
        'evil.example',
        'localhost.evil.example',
        '127.0.0.1.evil.example',
        '',
        'x:y',
        '[::1',
        'EVIL.example:80',
      ]) {
        const lines = [
          `GET /v1/me HTTP/1.1`,
          `Host: ${host}`,
          `Authorization: Bearer ${world.mallory.token}`,
          'Connection: close',
          '',
          '',
        ];
        const answer = await raw(world, lines.join('\r\n'));
        expect.soft([host, statusOf(answer) >= 400 || answer === '']).toEqual([host, true]);
      }
    },
    { quick: true },
  ),
  row('names another server in its request line', FRAMES, async (world) => {
    const { host } = new URL(world.url);
    for (const target of [
      'http://evil.example/v1/me',
      '//evil.example/v1/me',
      '*',
      '/v1/../../etc/passwd',
      '/v1/sessions/..%2f..%2fetc',
    ]) {
      const answer = await raw(
        world,
        [`GET ${target} HTTP/1.1`, `Host: ${host}`, 'Connection: close', '', ''].join('\r\n'),
      );
      expect.soft(statusOf(answer) >= 400 || answer === '', `${target}: ${answer.slice(0, 300)}`).toBe(true);
    }
    // Answered here or not at all: never fetched from there.
    await raw(
      world,
      [`GET http://127.0.0.1:${world.loopbackPort}/ HTTP/1.1`, `Host: ${host}`, 'Connection: close', '', ''].join(
        '\r\n',
      ),
    );
  }),
  row('speaks CONNECT, TRACE, HTTP/2 and TLS', FRAMES, async (world) => {
    for (const line of [
      'CONNECT 127.0.0.1:22 HTTP/1.1',
      'TRACE / HTTP/1.1',
      'PRI * HTTP/2.0',
      'TRACK / HTTP/1.1',
      '\u0016\u0003\u0001\u0002',
      'GET / HTTP/9.9',
    ]) {
      const answer = await raw(world, `${line}\r\nHost: ${new URL(world.url).host}\r\nConnection: close\r\n\r\n`);
      expect.soft([line, statusOf(answer) >= 400 || answer === '']).toEqual([line, true]);
    }
  }),
  row(
    'forges the headers of another server of the cluster',
    FRAMES,
    async (world) => {
      for (const value of ['1', world.victoria.token, 'admin', '{"user":"local"}', 'eyJhbGciOiJub25lIn0.e30.']) {
        const headers = {
          'x-cella-hop': value,
          'x-forwarded-for': '127.0.0.1',
          'x-forwarded-user': 'local',
          'x-real-ip': '127.0.0.1',
          'x-cella-user': 'local',
          'x-original-url': '/v1/users',
        };
        expect.soft((await world.mallory.call('GET /v1/users', { headers })).status).toBe(403);
        expect.soft([401, 429]).toContain((await world.mallory.call('GET /v1/users', { headers, token: null })).status);
        expect
          .soft((await world.mallory.call(`GET /v1/sessions/${world.victoria.session}`, { headers })).status)
          .toBe(404);
      }
    },
    { quick: true },
  ),
  row('requests a method with a header or a parameter', FRAMES, async (world) => {
    const headers = { 'x-http-method-override': 'DELETE', 'x-method-override': 'DELETE', 'x-http-method': 'DELETE' };
    await world.mallory.call('GET ~', { headers });
    await world.mallory.call('POST ~?_method=DELETE', { headers, body: {} });
    expect((await world.mallory.call('GET ~')).status).toBe(200);
  }),
  row('opens silent connections, and sends endless headers', FRAMES, async (world) => {
    const { hostname, port } = new URL(world.url);
    const held = Array.from({ length: 200 }, () => {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => {}); // it was cut off
      socket.write(`GET / HTTP/1.1\r\nHost: ${hostname}\r\nX-A: `);
      return socket;
    });
    await raw(world, `GET / HTTP/1.1\r\n${'x: y\r\n'.repeat(50_000)}`);
    expect((await world.victoria.call('GET /v1/me')).status).toBe(200);
    for (const socket of held) socket.destroy();
  }),
];

/** Written by the storage itself, while no server has it. */
async function fillAuditLog(dataDir: string, count: number): Promise<void> {
  await using storage = await FileStorage.open(dataDir);
  const entry = { userId: 'usr_1', userName: 'someone', action: 'session.execute', from: '127.0.0.1', outcome: 'ok' };
  const some = Array.from({ length: 1000 }, () => entry);
  for (let at = 0; at < count; at += some.length) await storage.events.append(AUDIT_KEY, some, { flushed: false });
}

/** What the server itself computes for this, with as little beside it as can be had. */
async function leastCpuMs(world: World, work: () => Promise<void>): Promise<number> {
  const costs: number[] = [];
  for (let round = 0; round < 3; round++) {
    const before = world.cpuMs;
    for (let n = 0; n < 3; n++) await work();
    costs.push((world.cpuMs - before) / 3);
  }
  return Math.min(...costs);
}

/** Processes that sleep. */
async function crowd(count: number): Promise<Disposable> {
  const one = spawn('sh', ['-c', `for n in $(seq ${count}); do sleep 600 & done; echo started; wait`], {
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  await happens(one.stdout, 'data');
  return {
    [Symbol.dispose]: () => {
      if (one.pid) process.kill(-one.pid, 'SIGKILL');
    },
  };
}

const operators: Row[] = [
  row(
    'floods the audit log as a viewer',
    OPERATOR,
    async (world) => {
      const viewer = await world.user(`viewer${randomBytes(4).toString('hex')}`, 'viewer');
      const calls = Array.from(
        { length: 1000 },
        (_, at) => () => viewer.call('POST /v1/sessions', { body: { agentKey: `x${at}` } }),
      );
      for (let at = 0; at < calls.length; at += 100) await Promise.all(calls.slice(at, at + 100).map((call) => call()));
      let count = 0;
      for (let after = 0; ; ) {
        const { json } = await world.ask(`GET /v1/audit?after=${after}&limit=1000`);
        const entries: { seq: number; userName: string }[] = json.entries;
        count += entries.filter(({ userName }) => userName === viewer.name).length;
        if (entries.length === 0) break;
        after = entries.at(-1)?.seq ?? 0;
      }
      // What is refused again and again is counted, and not told each time.
      expect(count).toBeLessThan(500);
    },
    { stalls: false },
  ),
  row(
    'searches the audit log with a filter that matches nothing',
    OPERATOR,
    async (world) => {
      // As it is after long: more entries than a user can make in the time of a test.
      const grow = (count: number) => world.restart(() => fillAuditLog(world.dataDir, count));
      const filters = ['user=usr_0000000000000000', 'session=ses_0000000000000000'];
      const look = async () => {
        for (const filter of filters) {
          const { status, json } = await world.ask(`GET /v1/audit?${filter}&limit=1000`);
          expect([status, json.entries, json.next > 0]).toEqual([200, [], true]);
        }
      };
      const costs: number[] = [];
      for (const count of [12_000, 120_000]) {
        await grow(count);
        await look();
        costs.push(await leastCpuMs(world, look));
      }
      const [few = 0, many = 0] = costs;
      // Ten times as many entries cost no more than a few: each call looks through a part of them, and says where to go on.
      expect(many, 'processor time in ms for ten times the entries').toBeLessThan(4 * few + 100);
    },
    { on: once },
  ),
  row(
    'lists its kernels repeatedly',
    OPERATOR,
    async (world) => {
      const { mallory, admin } = world;
      const list = async () => {
        const lists = [mallory, admin].map(async (who) => (await who.call('GET /v1/kernels')).status);
        expect(await Promise.all(lists)).toEqual([200, 200]);
      };
      const sessions: string[] = [];
      const grow = async (count: number) => {
        const made = await Promise.all(Array.from({ length: count }, () => mallory.open()));
        for (const session of made) await mallory.value('1', { session });
        sessions.push(...made);
      };
      // Processes of the machine that belong to no kernel: each of them is looked at once, however many kernels there are.
      using _crowd = await crowd(600);
      await grow(1);
      await list();
      const few = await leastCpuMs(world, list);
      await grow(48);
      await list();
      const many = await leastCpuMs(world, list);
      expect(many, 'processor time in ms for 48 kernels more').toBeLessThan(4 * few + 100);
      for (const session of sessions) await mallory.call(`DELETE /v1/sessions/${session}`);
    },
    { on: once },
  ),
  row(
    'injects lines into the log of the server',
    OPERATOR,
    async (world) => {
      const forged = 'x\n{"level":60,"msg":"forged-line"}\n\u001b[31m\u2028';
      await world.mallory.call(`GET /v1/${encodeURIComponent(forged)}`);
      await world.mallory.call('POST /v1/sessions', { body: { agentKey: forged, name: forged, ...world.executor } });
      await world.mallory.call('GET /v1/me', {
        headers: { 'user-agent': 'a\t{"forged":1}', 'x-request-id': 'forged-line"}' },
      });
      await world.mallory.call('POST ~/execute', { body: { code: `raise Exception(${JSON.stringify(forged)})` } });
      for (const line of world.logText.split('\n').filter((text) => text !== '')) {
        expect(() => JSON.parse(line)).not.toThrow();
        expect(JSON.parse(line).msg).not.toBe('forged-line');
        expect(line).not.toContain('\u001b');
      }
    },
    { quick: true },
  ),
  row(
    'creates metric labels with its own names',
    OPERATOR,
    async (world) => {
      const { mallory } = world;
      const before = (await world.ask('GET /metrics')).text.split('\n').length;
      const names = Array.from({ length: 400 }, () => randomBytes(6).toString('hex'));
      for (const name of names) await mallory.call(`GET /v1/${name}`, { headers: { 'x-agent': name } });
      for (const name of names.slice(0, 50)) await mallory.call(`GET /v1/sessions/ses_${name}0000`);
      const { text } = await world.ask('GET /metrics');
      expect(text.split('\n').length - before).toBeLessThan(50);
      for (const name of names) expect(text.includes(name)).toBe(false);
    },
    { quick: true },
  ),
  row('reads metrics and status for information about other users', OPERATOR, async ({ mallory, victoria }) => {
    for (const path of ['/metrics', '/ready', '/health', '/openapi.json', '/v1/server']) {
      const { text } = await mallory.call(`GET ${path}`);
      expect.soft([path, text.includes(victoria.userId) || text.includes(victoria.session)]).toEqual([path, false]);
    }
  }),
];

const deep = (open: string, close: string, count: number): string => open.repeat(count) + close.repeat(count);

const bodies: Row[] = [
  row(
    'sends JSON that is nested 100,000 levels deep',
    BODIES,
    async ({ mallory }) => {
      for (const body of [
        deep('[', ']', 100_000),
        `{"agentKey":${deep('{"a":', '}', 50_000)}`,
        deep('[', '', 1_000_000),
      ])
        expect([400, 413]).toContain((await mallory.call('POST /v1/sessions', { body })).status);
    },
    { quick: true },
  ),
  row(
    'hides very many parts of JSON behind a byte order mark',
    BODIES,
    async ({ mallory }) => {
      for (const mark of ['', '\ufeff']) {
        const body = `${mark}[${deep('[],', '', 2_000_000)}[]]`;
        for (const route of ['POST /v1/sessions', 'POST ~/mcp'])
          expect((await mallory.call(route, { body })).status, route).toBe(413);
      }
    },
    { quick: true },
  ),
  row('sends JSON with names of prototype properties', BODIES, async ({ mallory }) => {
    const bodiesOf = [
      '{"__proto__":{"role":"admin"},"agentKey":"p1"}',
      '{"constructor":{"prototype":{"admin":true}},"agentKey":"p2"}',
      '{"agentKey":"p3","labels":{"__proto__":"x"}}',
      '{"agentKey":"p4","env":{"__proto__":"x","constructor":"y"}}',
    ];
    for (const body of bodiesOf) await mallory.call('POST /v1/sessions', { body });
    expect((await mallory.call('GET /v1/users')).status).toBe(403);
    expect(({} as Record<string, unknown>).admin).toBeUndefined();
  }),
  row('sends bodies that are not JSON, not text or of another type', BODIES, async ({ mallory }) => {
    for (const [body, type] of [
      ['\ud800', 'application/json'],
      ['{"a":1}garbage', 'application/json'],
      ['a=b', 'application/x-www-form-urlencoded'],
      ['<x/>', 'text/xml'],
      ['\u0000\u00ff', 'application/octet-stream'],
      ['--x\r\n', 'multipart/form-data; boundary=x'],
      ['1e999', 'application/json'],
      ['""', 'application/json'],
    ] as const) {
      const { status } = await mallory.call('POST /v1/sessions', { body, headers: { 'content-type': type } });
      expect.soft([body, status >= 400 && status < 500]).toEqual([body, true]);
    }
  }),
  row('sends compressed bodies that expand enormously', BODIES, async ({ mallory }) => {
    const { gzipSync } = await import('node:zlib');
    const bomb = gzipSync(Buffer.alloc(200_000_000, ' '));
    const { status } = await mallory.call('POST /v1/sessions', {
      body: bomb,
      headers: { 'content-encoding': 'gzip', 'content-type': 'application/json' },
    });
    expect(status).toBeGreaterThanOrEqual(400);
  }),
  row('sends invalid numbers', BODIES, async ({ mallory }) => {
    for (const value of [
      '-1',
      'NaN',
      'Infinity',
      '1e999',
      '0x10',
      '99999999999999999999',
      '1.5',
      '',
      ' ',
      'null',
      '[]',
      '1&after=2',
    ]) {
      for (const what of [
        `GET ~/events?after=${value}`,
        `GET /v1/sessions?limit=${value}`,
        `GET ~/files/content?path=x&offset=${value}`,
      ]) {
        const { status } = await mallory.call(what);
        expect.soft([what, status < 500]).toEqual([what, true]);
      }
    }
    for (const timeoutMs of [-1, 1e12, 1.5, '1', null])
      expect.soft((await mallory.call('POST ~/execute', { body: { code: '1', timeoutMs } })).status).toBe(400);
  }),
  row(
    'requests limits, folders and a network that members cannot have',
    'Members get their own sandbox, and nothing else of the machine.',
    async (world) => {
      for (const body of [
        { sandbox: 'off' },
        { executor: 'in-process' },
        { cwd: '/etc' },
        { cwd: world.secretDir },
        { sandbox: { readable: ['/'] } },
        { sandbox: { writable: [world.secretDir] } },
        { sandbox: { network: 'host' } },
        { sandbox: { network: { allow: ['127.0.0.1'] } } },
        { sandbox: { cgroup: 'if-available' } },
        { limits: { memoryMb: 10_000_000 } },
        { limits: { processes: 1e9 } },
        { env: { LD_PRELOAD: '/tmp/x', 'A=B': 'x' } },
      ]) {
        const { status } = await world.mallory.call('POST /v1/sessions', {
          body: { agentKey: randomBytes(4).toString('hex'), ...body },
        });
        expect.soft([JSON.stringify(body), [400, 403].includes(status)]).toEqual([JSON.stringify(body), true]);
      }
    },
    { quick: true },
  ),
  row(
    'creates more sessions than the quota',
    'The number of sessions per user is limited.',
    async (world) => {
      const user = await world.user(`many${randomBytes(4).toString('hex')}`);
      const codes: number[] = [];
      for (let at = 0; at < 1100; at += 50) {
        const replies = await Promise.all(
          Array.from({ length: 50 }, (_, n) =>
            user.call('POST /v1/sessions', { body: { agentKey: `k${at + n}`, ...world.executor } }),
          ),
        );
        codes.push(...replies.map(({ status }) => status));
      }
      expect(codes.filter((status) => status === 201).length).toBeLessThanOrEqual(1000);
      await world.ask(`DELETE /v1/users/${user.name}`);
    },
    { stalls: false },
  ),
];

export const httpRows: readonly Row[] = [...framing, ...operators, ...bodies];
