/** A server for tests: the real one, on a free port of the loopback, with a data folder of its own. */

import { readFile } from 'node:fs/promises';
import { afterAll } from 'vitest';
import type { SessionInfo } from '../../../src/protocol/session-info.ts';
import type { ServedFacts } from '../../../src/server/run-server.ts';
import { shutdown } from '../../../src/session/shared-resources.ts';
import { scratchFolder } from '../kernels/session.ts';
import { serveHere, type TestServerOptions } from './serve-here.ts';

export interface CallOptions {
  /** By default the admin's; null for none. */
  readonly token?: string | null | undefined;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}

export interface Answer<T = Record<string, unknown>> {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** What the text is as JSON; empty where it is none. */
  readonly json: T;
}

const running = new Set<TestServer>();

afterAll(async () => {
  await Promise.all([...running].map((server) => server[Symbol.asyncDispose]()));
  await shutdown();
});

export class TestServer implements AsyncDisposable {
  readonly facts: ServedFacts;
  readonly token: string;
  readonly #end: () => void;
  readonly #over: Promise<void>;

  private constructor(facts: ServedFacts, token: string, end: () => void, over: Promise<void>) {
    this.facts = facts;
    this.token = token;
    this.#end = end;
    this.#over = over;
  }

  static async start(options: TestServerOptions = {}): Promise<TestServer> {
    const dataDir = options.dataDir ?? (await scratchFolder());
    const ended = Promise.withResolvers<void>();
    const ready = Promise.withResolvers<ServedFacts>();
    const over = serveHere({ ...options, dataDir }, ended.promise, ready.resolve);
    const facts = await Promise.race([ready.promise, over.then(() => Promise.reject(new Error('it ended at once')))]);
    const token = (await readFile(facts.adminTokenPath, 'utf8')).trim();
    const server = new TestServer(facts, token, ended.resolve, over);
    running.add(server);
    return server;
  }

  get url(): string {
    return this.facts.url;
  }

  async call<T = Record<string, unknown>>(what: string, options: CallOptions = {}): Promise<Answer<T>> {
    const response = await this.fetch(what, options);
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
    return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : {} };
  }

  /** `what` is a method and a path. */
  async fetch(what: string, { token = this.token, body, headers = {}, signal }: CallOptions = {}): Promise<Response> {
    const [method = 'GET', path = '/'] = what.split(' ');
    return await fetch(new URL(path, this.url), {
      method,
      redirect: 'manual',
      headers: { ...(token === null ? {} : { authorization: `Bearer ${token}` }), ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  async session(body: Record<string, unknown> = {}, token?: string): Promise<SessionInfo> {
    const { status, json, text } = await this.call<SessionInfo>('POST /v1/sessions', { body, token });
    if (status >= 300) throw new Error(`no session: ${text}`);
    return json;
  }

  /** Runs code to its end. */
  async run(session: string, code: string, more: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    return (await this.call(`POST /v1/sessions/${session}/execute`, { body: { code, ...more } })).json;
  }

  /** Makes a user, and gives a token of it. */
  async user(name: string, role: string, token: Record<string, unknown> = {}): Promise<string> {
    await this.call('POST /v1/users', { body: { name, role } });
    const { json, text } = await this.call('POST /v1/tokens', { body: { name: 'test', user: name, ...token } });
    if (typeof json.token !== 'string') throw new Error(`no token: ${text}`);
    return json.token;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    running.delete(this);
    this.#end();
    await this.#over;
  }
}
