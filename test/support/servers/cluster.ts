/** Servers that share a Redis, each a process with a data folder of its own, for tests that do bad things to them. */

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import type { SessionEvent, StreamItem } from '../../../src/protocol/session-events.ts';
import type { SessionInfo } from '../../../src/protocol/session-info.ts';
import { scratchFolder } from '../kernels/session.ts';
import { RedisServer } from './redis.ts';

const program = fileURLToPath(new URL('../../server/cluster/cluster-child.ts', import.meta.url));
/** Short, for tests that wait until it is over; long enough for a server that lacks a processor to keep what it has. */
export const LEASE_MS = 4000;

interface Facts {
  readonly url: string;
  readonly token: string;
  readonly socketPath: string;
  /** Of its locks. */
  readonly id: string;
}

export interface Answer<T = Record<string, unknown>> {
  readonly status: number;
  readonly headers: Headers;
  readonly json: T;
}

interface CallOptions {
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}

const servers = new Set<Server>();
const redises = new Set<RedisServer>();

afterAll(async () => {
  await Promise.all([...servers].map((server) => server.kill()));
  await Promise.all([...redises].map((redis) => redis.remove()));
});

/** Gone, with all its servers, at the end of the file. */
export class Cluster {
  readonly redis: RedisServer;
  readonly prefix = randomUUID();

  private constructor(redis: RedisServer) {
    this.redis = redis;
  }

  static async start(): Promise<Cluster> {
    // It is killed, and must not forget what it has just said.
    const redis = await RedisServer.start({ args: ['--appendfsync', 'always'] });
    redises.add(redis);
    return new Cluster(redis);
  }

  async server(more: Record<string, unknown> = {}): Promise<Server> {
    const { url } = this.redis;
    const place = { dataDir: await scratchFolder(), url, prefix: this.prefix, leaseMs: LEASE_MS, ...more };
    const server = await Server.start(JSON.stringify(place));
    servers.add(server);
    return server;
  }
}

export class Server {
  readonly facts: Facts;
  readonly pid: number;
  readonly #signal: (name: NodeJS.Signals) => void;
  readonly #exited: Promise<unknown>;

  private constructor(facts: Facts, pid: number, signal: (name: NodeJS.Signals) => void, exited: Promise<unknown>) {
    this.facts = facts;
    this.pid = pid;
    this.#signal = signal;
    this.#exited = exited;
  }

  static async start(place: string): Promise<Server> {
    const child = spawn(process.execPath, [program, '', place], { stdio: ['ignore', 'pipe', 'inherit'] });
    const exited = once(child, 'exit');
    for await (const line of createInterface({ input: child.stdout })) {
      return new Server(JSON.parse(line), child.pid ?? 0, (name) => void child.kill(name), exited);
    }
    throw new Error('the server ended before it was ready');
  }

  get url(): string {
    return this.facts.url;
  }

  signal(name: NodeJS.Signals): void {
    this.#signal(name);
  }

  async kill(): Promise<void> {
    this.#signal('SIGKILL');
    await this.#exited;
  }

  /** In good order. */
  async stop(): Promise<void> {
    this.#signal('SIGTERM');
    await this.#exited;
  }

  /** `what` is a method and a path. */
  async fetch(what: string, { body, headers = {}, signal }: CallOptions = {}): Promise<Response> {
    const [method = 'GET', path = '/'] = what.split(' ');
    return await fetch(new URL(path, this.url), {
      method,
      headers: { authorization: `Bearer ${this.facts.token}`, ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  async call<T = Record<string, unknown>>(what: string, options: CallOptions = {}): Promise<Answer<T>> {
    const { status, headers, ...response } = await this.fetch(what, options).then(async (answer) => ({
      status: answer.status,
      headers: answer.headers,
      text: await answer.text(),
    }));
    return { status, headers, json: response.text === '' ? ({} as T) : JSON.parse(response.text) };
  }

  async session(agentKey: string = randomUUID()): Promise<string> {
    return (await this.call<SessionInfo>('POST /v1/sessions', { body: { agentKey } })).json.id;
  }

  async run(session: string, code: string, headers: Record<string, string> = {}): Promise<Record<string, unknown>> {
    const { json } = await this.call(`POST /v1/sessions/${session}/execute`, { body: { code }, headers });
    return json;
  }

  /** All there is in the log. */
  async events(session: string): Promise<SessionEvent[]> {
    const { json } = await this.call<{ events: StreamItem[] }>(`GET /v1/sessions/${session}/events?limit=10000`);
    return json.events.filter((item): item is SessionEvent => item.type !== 'trimmed');
  }
}
