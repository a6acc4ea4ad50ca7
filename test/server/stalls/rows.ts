/** Large states and hostile requests, and how long each of them stops the event loop of a server. */

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openAccess } from '../../../src/server/access/access-control.ts';
import { AUDIT_KEY } from '../../../src/server/access/audit-log.ts';
import { storageKeyOf } from '../../../src/server/ids.ts';
import { newDefinition, SessionDefinitions } from '../../../src/server/sessions/session-definitions.ts';
import type { Storage } from '../../../src/storage/contract.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { RedisStorage } from '../../../src/storage/redis/redis-storage.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { RedisServer } from '../../support/servers/redis.ts';
import type { TestServerOptions } from '../../support/servers/serve-here.ts';
import { expectNoStall, serverLoop } from '../../support/servers/stalls.ts';

export interface Sizes {
  readonly events: number;
  readonly audit: number;
  /** Of other users. */
  readonly sessions: number;
  readonly openSessions: number;
  readonly tokens: number;
  readonly kernels: number;
  readonly skills: number;
  readonly artifacts: number;
  readonly files: number;
  /** Of each of two sessions. */
  readonly outputs: number;
}

const program = fileURLToPath(new URL('server-child.ts', import.meta.url));
const BATCH = 1000;
const SWEEP_MS = 2000;

/** The sessions of ann that have something in them, by key. */
const KEYS = ['log', 'untouched', 'second', 'talk', 'files', 'spare', 'outputs', 'more outputs'] as const;
type Key = (typeof KEYS)[number];

interface State {
  readonly dataDir: string;
  readonly ann: string;
  readonly annId: string;
  readonly ids: Readonly<Record<Key, string>>;
  readonly crowd: readonly string[];
}

export function stallSuite(sizes: Sizes, on: 'file' | 'redis' = 'file'): void {
  let state: State;
  let server: Server;
  let redis: RedisServer | undefined;

  beforeAll(async () => {
    redis = on === 'redis' ? await RedisServer.start() : undefined;
    const place = redis && { url: redis.url, prefix: 'stalls' };
    state = await fill(sizes, (dataDir) => (place ? RedisStorage.open(place.url, place) : FileStorage.open(dataDir)));
    server = await Server.start(state.dataDir, [], place && { redis: place });
  }, 1_800_000);
  afterAll(async () => {
    await server?.end();
    await redis?.remove();
  });

  const row = (name: string, work: () => Promise<unknown>, timeout = 600_000) =>
    it(name, { timeout }, async () => {
      const begun = performance.now();
      const stall = await expectNoStall(work, serverLoop(server.url, server.pid));
      console.log(`${name}: longest stall ${stall.toFixed(1)} ms, ${(performance.now() - begun).toFixed(0)} ms in all`);
    });
  const ask = async (what: string, { token = state.ann, body, status = 200 }: Ask = {}) => {
    const [method = 'GET', path = ''] = what.split(' ');
    const answered = await server.discard(method, path, token, body);
    expect(answered, what).toBe(status);
  };
  const admin = () => ({ token: server.token });
  const session = (key: Key, path: string) => `/v1/sessions/${state.ids[key]}${path}`;

  describe('a long log', () => {
    const untouched: Key[] = ['untouched', 'second'];
    row('opening a session whose log has no mark', () =>
      ask(`GET ${session(untouched.shift() ?? 'log', '/events?limit=1')}`),
    );
    row('a WebSocket from the beginning', () => server.follow(session('log', '/ws?after=0'), state.ann, sizes.events));
    row('four WebSockets from the beginning at once', () => {
      const each = () => server.follow(session('log', '/ws?after=0'), state.ann, Math.min(sizes.events, 10_000));
      return Promise.all(Array.from({ length: 4 }, each));
    });
    row('the conversation, with nothing of an agent in it', () => ask(`GET ${session('log', '/conversation')}`));
    row('the conversation of an agent', () => ask(`GET ${session('talk', '/conversation')}`));
    row('events of an execution that is not there', () =>
      ask(`GET ${session('log', '/events?execution=exe_0000000000000000&limit=1000')}`),
    );
    row('a page of events', () => ask(`GET ${session('log', '/events?limit=1000')}`));
  });

  describe('a long audit log', () => {
    row('a filter that matches nothing', () => ask('GET /v1/audit?session=ses_0000000000000000', admin()));
    it('a filter that matches nothing says where to go on, up to the end', async () => {
      const places = ['/v1/audit?session=ses_0000000000000000&', session('log', '/events?turn=trn_0000000000000000&')];
      for (const [place, size] of [[places[0], sizes.audit] as const, [places[1], sizes.events] as const]) {
        let [next, last, calls] = [0, 1, 0];
        for (; next < last; calls += 1) {
          const path = `GET ${place}after=${next}`;
          const page = await server.json<{ next: number; last: number; events?: object[]; entries?: object[] }>(
            path,
            server.token,
          );
          expect(page.next, path).toBeGreaterThan(next);
          expect(page.events ?? page.entries).toEqual([]);
          ({ next, last } = page);
        }
        expect(calls).toBeGreaterThanOrEqual(size / 10_000);
      }
    });
    row('the last page', () => ask(`GET /v1/audit?after=${sizes.audit - 10}&limit=1000`, admin()));
  });

  describe('many sessions of other users', () => {
    row('listing one’s own', () => ask('GET /v1/sessions?limit=1000'));
    row('listing by a label that none has', () => ask('GET /v1/sessions?label=a=b&limit=1000'));
    row('listing all by a label that none has', () => ask('GET /v1/sessions?label=a=b&limit=1000', admin()));
    row('listing all by state', () => ask('GET /v1/sessions?state=running&limit=1000', admin()));
    row('listing all', () => ask('GET /v1/sessions?limit=1000', admin()));
    row('the facts of the server', () => ask('GET /v1/server', admin()));
    row('making and deleting a session', async () => {
      const { id } = await server.json<{ id: string }>('POST /v1/sessions', state.ann, { agentKey: randomUUID() });
      await ask(`DELETE /v1/sessions/${id}`, { status: 204 });
    });
    row('waking a kernel under a quota', () => ask(`POST ${session('spare', '/execute')}`, { body: { code: '1' } }));
    row('listing agents', () => ask('GET /v1/kernels'));
    row('tokens', async () => {
      await ask('GET /v1/tokens');
      const { info } = await server.json<{ info: { id: string } }>('POST /v1/tokens', state.ann, { name: 'one' });
      await ask(`DELETE /v1/tokens/${info.id}`, { status: 204 });
    });
    row('a sweep over many open sessions', async () => {
      for (let at = 0; at < state.crowd.length; at += 5) {
        const some = state.crowd.slice(at, Math.min(at + 5, sizes.openSessions));
        await Promise.all(some.map((id) => ask(`GET /v1/sessions/${id}/events?limit=1`, admin())));
        if (at >= sizes.openSessions) break;
      }
      await new Promise((resolve) => setTimeout(resolve, 2 * SWEEP_MS));
    });
  });

  describe('many kernels', () => {
    row('starting them', async () => {
      const each = async (number: number) => {
        const { id } = await server.json<{ id: string }>('POST /v1/sessions', server.token, { agentKey: `k${number}` });
        await ask(`POST /v1/sessions/${id}/execute`, { ...admin(), body: { code: '1' } });
      };
      for (let at = 0; at < sizes.kernels; at += 4) {
        await Promise.all([0, 1, 2, 3].map((more) => each(at + more)));
      }
    });
    row('listing them', () => ask('GET /v1/kernels', admin()));
    row('metrics', () => ask('GET /metrics', admin()));
  });

  // The rest does not depend on the storage.
  if (on === 'redis') return;

  describe('hostile bodies', () => {
    const names = (count: number, name: (number: number) => string) =>
      Object.fromEntries(Array.from({ length: count }, (_, number) => [name(number), 'x']));
    const bodies = {
      'labels that are none': { labels: names(90_000, (number) => `no label ${number}`) },
      'fewer labels that are none': { labels: names(19_000, (number) => `no label ${number}`) },
      'variables that are none': { env: names(19_000, (number) => `=${number}`) },
      'settings that are none': names(19_000, (number) => `setting${number}`),
      'a long list': { shares: Array.from({ length: 400_000 }, () => 5) },
      'a long text': { name: 'x'.repeat(7_000_000) },
      'a long text of escapes': { name: '\n'.repeat(4_000_000) },
    };
    // Node takes the mark of a byte order away before it parses.
    const marked = { 'very many lists behind a mark of the byte order': `\ufeff[${'[],'.repeat(2_000_000)}[]]` };
    // Made before anything is measured: this process looks at the server.
    const texts = Object.entries(bodies).map(([name, body]) => [name, JSON.stringify(body)] as const);
    for (const [name, text] of [...texts, ...Object.entries(marked)]) {
      row(`a session with ${name}`, async () => {
        const status = await server.discard('POST', '/v1/sessions', state.ann, text);
        expect([400, 413]).toContain(status);
      });
    }
  });

  describe('hostile frames of a WebSocket', () => {
    const frames = {
      escapes: JSON.stringify({ type: 'ping', id: 1, more: '\n'.repeat(4_000_000) }),
      digits: `{"type":"ping","id":1,"more":${'1'.repeat(8_000_000)}}`,
      blanks: `{"type":"ping","id":1${' '.repeat(8_000_000)}}`,
      numbers: `{"type":"ping","id":1,"more":[${'1.5e10,'.repeat(380_000)}0]}`,
      keys: `{"type":"ping","id":1${Array.from({ length: 35_000 }, (_, at) => `,"k${at}":0`).join('')}}`,
    };
    for (const [name, text] of Object.entries(frames)) {
      const frame = maskedFrame(text);
      row(name, () => server.say(session('spare', '/ws'), state.ann, frame));
    }
  });

  describe('many items', () => {
    row('listing skills', () => ask(`GET ${session('spare', '/skills')}`));
    row('searching skills with a long query', async () => {
      const q = Array.from({ length: 140 }, (_, number) => `wrds${number}x`)
        .join(' ')
        .slice(0, 1000);
      const status = await server.discard(
        'GET',
        `${session('spare', '/skills')}?q=${encodeURIComponent(q)}`,
        state.ann,
      );
      expect([200, 400]).toContain(status);
    });
    row('searching skills and tools from code', () =>
      ask(`POST ${session('spare', '/execute')}`, {
        body: {
          code: [
            'for namespace in (skills, tools):',
            '    words = " ".join(f"wrds{number}x" for number in range(2000))',
            '    for query in (words[:1000], words[:10_000], "x" * 1_000_000):',
            '        try:',
            '            namespace.search(query)',
            '        except Exception as error:',
            '            print(type(error).__name__)',
          ].join('\n'),
        },
      }),
    );
    it('exist: skills that can be used', async () => {
      const answer = await server.json<{ skills: object[] }>(`GET ${session('spare', '/skills')}`, state.ann);
      expect(answer.skills).toHaveLength(Math.min(sizes.skills, 1000));
    });
    row('calling a skill', async () => {
      const code = 'for _ in range(5): await skills.skill_1()';
      const path = `POST ${session('spare', '/execute')}`;
      expect(await server.json(path, state.ann, { code })).toMatchObject({ status: 'ok' });
    });
    row('calling a skill after another was made', async () => {
      const code = `skills.create("new_${randomUUID().slice(0, 8)}", "async def run(): pass")\nawait skills.skill_1()`;
      const path = `POST ${session('spare', '/execute')}`;
      expect(await server.json(path, state.ann, { code })).toMatchObject({ status: 'ok' });
    });
    row('listing artifacts', () => ask(`GET ${session('spare', '/artifacts')}`));
    row('listing what the user has', () =>
      Promise.all([ask('GET /v1/skills'), ask('GET /v1/artifacts'), ask('GET /v1/tools')]),
    );
    row('a folder with many files', () => ask(`GET ${session('files', '/files')}`));
    const full: Key[] = ['outputs', 'more outputs'];
    row('deleting a session with many output files', () =>
      ask(`DELETE ${session(full.shift() ?? 'log', '')}`, { status: 204 }),
    );
  });
}

interface Ask {
  readonly token?: string;
  readonly body?: unknown;
  readonly status?: number;
}

/** Written by the storage itself, as a server of long standing would have left it. */
async function fill(sizes: Sizes, open: (dataDir: string) => Promise<Storage>): Promise<State> {
  const dataDir = await scratchFolder();
  const cwd = await scratchFolder();
  for (let number = 0; number < sizes.files; number += 1) writeFileSync(join(cwd, `file-${number}.txt`), '');
  await using storage = await open(dataDir);
  await using access = await openAccess({ storage, dataDir, rates: { burst: 1, perSecond: 1 } });
  const by = access.localAdmin();
  const [ann, crowd] = [
    await access.users.create(by, { name: 'ann' }),
    await access.users.create(by, { name: 'crowd' }),
  ];
  const { token } = await access.tokens.create(by, { name: 'test', user: 'ann' });
  const definitions = new SessionDefinitions(storage.documents);
  const ids = Object.fromEntries(
    await Promise.all(
      KEYS.map(async (agentKey) => {
        const made = newDefinition(ann.id, { agentKey, ...(agentKey === 'files' ? { cwd } : {}) });
        await definitions.add(made);
        return [agentKey, made.id];
      }),
    ),
  );
  for (const key of ['outputs', 'more outputs']) {
    const outputs = join(dataDir, 'outputs', ids[key] ?? '');
    mkdirSync(outputs, { recursive: true });
    for (let at = 0; at < sizes.outputs; at += 1)
      writeFileSync(join(outputs, `out_${`${at}`.padStart(16, '0')}.txt`), '');
  }
  const others = await inBatches(sizes.sessions, async (number) => {
    const made = newDefinition(crowd.id, { agentKey: `s${number}` });
    await definitions.add(made);
    return made.id;
  });
  await inBatches(sizes.tokens, async (number) => {
    const facts = { userId: crowd.id, secretSha256: 'x', createdAt: 1, uses: 0 };
    const id = `a${number.toString(32).replaceAll(/[0189w-z]/g, 'z')}`.padEnd(16, 'b') + number;
    await storage.documents.put('tokens', id, { ...facts, name: 'x', scopes: ['view'] });
    const binding = { session: 'ses_x', task: 'trn_x', executor: 'x', expiresAt: Date.now() + 1e9 };
    await storage.documents.put('session-tokens', id, { ...facts, ...binding });
  });
  const line = {
    type: 'stdout',
    execution: 'exe_1111111111111111',
    text: 'a line of what code prints, and not a long one\n',
  };
  const ended = { type: 'interrupted', execution: line.execution, reason: 'the test is over' };
  for (const key of ['log', 'untouched', 'second'] as const) {
    await append(storage, storageKeyOf(ann.id, key), sizes.events, () => line);
    await storage.events.append(storageKeyOf(ann.id, key), [ended]);
  }
  const turn = 'trn_1111111111111111';
  await append(storage, storageKeyOf(ann.id, 'talk'), Math.min(sizes.events, 100_000), (number) => {
    if (number === 0) return { type: 'turn_started', turn, agent: 'claude', mode: 'ask', prompt: 'Go on.', by: ann.id };
    const item = `i${Math.floor(number / 20)}`;
    if (number % 20 === 0) return { type: 'item_started', turn, item, kind: 'message' };
    return { type: 'item_delta', turn, item, text: 'a few words ' };
  });
  await storage.events.append(storageKeyOf(ann.id, 'talk'), [{ type: 'turn_ended', turn, status: 'completed' }]);
  const entry = { userId: ann.id, userName: 'ann', action: 'session.execute', session: ids.log, outcome: 'ok' };
  await append(storage, AUDIT_KEY, sizes.audit, () => entry);
  const scope = storage.scope(ann.id);
  await scope.skills.put('skill_0', skill(0));
  const folder = (await scope.skills.get('skill_0'))?.where.replace(/skill_0\.py$/, '') ?? '';
  for (let number = 1; number < sizes.skills; number += 1) {
    writeFileSync(join(folder, `skill_${number}.py`), skill(number));
  }
  await inBatches(sizes.artifacts, async (number) => {
    const writer = await scope.artifacts.begin(`artifact-${number}`);
    await writer.write(Buffer.from('x'));
    await writer.finish({ type: 'bytes', mediaType: 'text/plain', description: '', metadata: {} });
  });
  return { dataDir, ann: token, annId: ann.id, ids: ids as Record<Key, string>, crowd: others };
}

const skill = (number: number) =>
  `async def run(text: str = ""):\n    """Number ${number}: reads data and counts words."""\n    return ${number}\n`;

async function append(storage: Storage, key: string, count: number, make: (number: number) => unknown) {
  for (let at = 0; at < count; at += BATCH) {
    const some = Array.from({ length: Math.min(BATCH, count - at) }, (_, index) => make(at + index));
    await storage.events.append(key, some, { flushed: false });
  }
}

async function inBatches<T>(count: number, make: (number: number) => Promise<T>): Promise<T[]> {
  const made: T[] = [];
  for (let at = 0; at < count; at += 100) {
    const some = Array.from({ length: Math.min(100, count - at) }, (_, index) => make(at + index));
    made.push(...(await Promise.all(some)));
  }
  return made;
}

/** As a client sends it; its mask is 0, so that nothing is to be computed while the server is looked at. */
function maskedFrame(text: string): Buffer {
  const head = Buffer.alloc(14);
  head[0] = 0x81;
  head[1] = 0xff;
  head.writeBigUInt64BE(BigInt(Buffer.byteLength(text)), 2);
  return Buffer.concat([head, Buffer.from(text)]);
}

/** What it answers is thrown away: reading it here would keep this process from looking at the server. */
export class Server {
  readonly url: string;
  readonly token: string;
  readonly pid: number;
  readonly end: () => Promise<void>;

  private constructor({ url, token, pid }: { url: string; token: string; pid: number }, end: () => Promise<void>) {
    this.url = url;
    this.pid = pid;
    this.token = token;
    this.end = end;
  }

  /** `by`: a command that starts it, with its arguments. `more`: options that have nothing but data in them. */
  static async start(dataDir: string, by: readonly string[] = [], more: TestServerOptions = {}): Promise<Server> {
    const options = JSON.stringify({ dataDir, sweepEveryMs: SWEEP_MS, ...more });
    const [command = process.execPath, ...args] = [...by, process.execPath, program, options];
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const closed = once(child, 'close');
    const gone = closed.then(() => Promise.reject(new Error('the server has ended')));
    gone.catch(() => {});
    const [line] = await Promise.race([once(createInterface(child.stdout), 'line'), gone]);
    return new Server(JSON.parse(line), async () => {
      child.kill('SIGTERM');
      await closed;
    });
  }

  async json<T>(what: string, token: string, body?: unknown): Promise<T> {
    const [method = 'GET', path = ''] = what.split(' ');
    const response = await this.#fetch(method, path, token, body);
    const text = await response.text();
    if (!response.ok) throw new Error(`${what}: ${text.slice(0, 500)}`);
    return JSON.parse(text);
  }

  async discard(method: string, path: string, token: string, body?: unknown): Promise<number> {
    const response = await this.#fetch(method, path, token, body);
    if (response.body) for await (const _chunk of response.body);
    return response.status;
  }

  /** Reads a WebSocket until it has sent so many frames; what is in them is not looked at. */
  async follow(path: string, token: string, frames: number): Promise<void> {
    let seen = 0;
    for await (const chunk of this.#upgraded(path, token)) {
      // Each frame begins with a byte that no JSON holds.
      for (let at = chunk.indexOf(0x81); at !== -1; at = chunk.indexOf(0x81, at + 1)) seen += 1;
      if (seen >= frames) return;
    }
    throw new Error(`the WebSocket ended after ${seen} frames`);
  }

  /** Sends a frame on a WebSocket, and reads until it is answered. */
  async say(path: string, token: string, frame: Buffer): Promise<void> {
    for await (const chunk of this.#upgraded(path, token, frame)) {
      if (/"type":"(?:reply|error)"/.test(String(chunk))) return;
    }
    throw new Error('the WebSocket ended without an answer');
  }

  async *#upgraded(path: string, token: string, frame?: Buffer): AsyncGenerator<Buffer> {
    const { hostname, port } = new URL(this.url);
    const socket = connect(Number(port), hostname);
    const head = [
      ...[`GET ${path} HTTP/1.1`, `Host: ${hostname}:${port}`, 'Upgrade: websocket', 'Connection: Upgrade'],
      ...['Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==', `Authorization: Bearer ${token}`],
    ];
    socket.write(`${head.join('\r\n')}\r\n\r\n`);
    let accepted = false;
    try {
      for await (const chunk of socket) {
        if (!accepted && !String(chunk).startsWith('HTTP/1.1 101')) throw new Error(String(chunk).slice(0, 500));
        if (!accepted && frame) socket.write(frame);
        accepted = true;
        yield chunk;
      }
    } finally {
      socket.destroy();
    }
  }

  #fetch(method: string, path: string, token: string, body: unknown): Promise<Response> {
    return fetch(new URL(path, this.url), {
      method,
      headers: { authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
  }
}
