/** A model gateway for tests: the real one on a Unix socket, over a storage of its own, with people, keys and tokens. */

import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type RequestListener, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import type { Quotas } from '../../../src/protocol/access-models.ts';
import { providers } from '../../../src/protocol/enums.ts';
import { type AccessControl, openAccess } from '../../../src/server/access/access-control.ts';
import type { Principal } from '../../../src/server/access/authorization.ts';
import type { TokenBinding } from '../../../src/server/access/session-tokens.ts';
import type { GateOf } from '../../../src/server/gateway/gateway.ts';
import { ModelService, type ModelServiceOptions } from '../../../src/server/gateway/model-service.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { scratchFolder } from '../kernels/session.ts';

const closing: AsyncDisposableStack[] = [];
afterAll(async () => {
  for (const stack of closing.splice(0).toReversed()) await stack.disposeAsync();
});

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export interface Asking {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
  /** Told of each piece as it comes. */
  readonly onText?: (text: string) => void;
}

export interface Person {
  readonly principal: Principal;
  token(binding?: Partial<TokenBinding>): Promise<string>;
}

export class Gateway {
  readonly dataDir: string;
  readonly access: AccessControl;
  readonly models: ModelService;
  readonly socket: string;
  readonly server: Server;
  readonly #stack: AsyncDisposableStack;

  private constructor(parts: {
    dataDir: string;
    access: AccessControl;
    models: ModelService;
    socket: string;
    server: Server;
    stack: AsyncDisposableStack;
  }) {
    this.dataDir = parts.dataDir;
    this.access = parts.access;
    this.models = parts.models;
    this.socket = parts.socket;
    this.server = parts.server;
    this.#stack = parts.stack;
  }

  /** `expected`: what the socket belongs to. */
  static async open(
    options: Partial<ModelServiceOptions> & { readonly quotas?: Quotas; readonly expected?: GateOf } = {},
  ): Promise<Gateway> {
    const { quotas, expected, dataDir = await scratchFolder(), ...rest } = options;
    const stack = new AsyncDisposableStack();
    closing.push(stack);
    const storage = stack.use(await FileStorage.open(dataDir));
    const access = stack.use(await openAccess({ storage, dataDir, quotas }));
    const models = stack.use(new ModelService({ documents: storage.documents, access, dataDir, ...rest }));
    const server = createServer((incoming, response) => {
      if (!models.gateway.handle(incoming, response, expected)) response.writeHead(418).end('not the gateway');
    });
    const socket = join(dataDir, 'gateway.sock');
    server.listen(socket);
    await once(server, 'listening');
    stack.defer(() => closed(server));
    return new Gateway({ dataDir, access, models, socket, server, stack });
  }

  /** As a restart of the server: the same folder, nothing else kept. */
  async close(): Promise<void> {
    await closed(this.server);
    await this.#stack.disposeAsync();
  }

  /** A user with a key. */
  async person(name: string, key: string | undefined, quotas: Quotas = {}): Promise<Person> {
    const admin = this.access.localAdmin();
    const { id } = await this.access.users.create(admin, { name, quotas });
    const made = await this.access.tokens.create(admin, { name: 'test', user: name });
    const principal = await this.access.authenticate(made.token);
    for (const provider of providers)
      if (key !== undefined) await this.models.credentials.set(principal, provider, key);
    const token: Person['token'] = (binding = {}) => {
      const { session = `ses_${name}`, turn = `trn_${name}`, runner = `rnr_${name}` } = binding;
      return this.access.sessionTokens.issue({ userId: id }, { session, turn, runner });
    };
    return { principal, token };
  }

  ask(path: string, asking: Asking = {}): Promise<Reply> {
    const { method = 'POST', headers = {}, body, signal, onText } = asking;
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    const text = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    const sent = request({
      ...{ socketPath: this.socket, path, method, agent: false, signal },
      headers: { 'content-type': 'application/json', ...headers },
    });
    sent.on('error', reject);
    sent.on('response', (response) => {
      let all = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        all += piece;
        onText?.(piece);
      });
      response.on('error', reject);
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text: all }));
    });
    sent.end(text);
    return promise;
  }

  /** Messages of Anthropic, as Claude asks for them. */
  messages(token: string, asking: Asking & { readonly stream?: boolean } = {}): Promise<Reply> {
    const { headers = {}, stream = false, ...rest } = asking;
    const body = {
      ...{ model: 'claude-sonnet-4-5', max_tokens: 100, stream },
      messages: [{ role: 'user', content: 'hello' }],
    };
    const version = { 'x-api-key': token, 'anthropic-version': '2023-06-01' };
    return this.ask('/anthropic/v1/messages', { body, ...rest, headers: { ...version, ...headers } });
  }
}

/** A provider that answers as the test says. */
export async function provide(answer: RequestListener): Promise<{ url: string; server: Server }> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stack = new AsyncDisposableStack();
  stack.defer(() => closed(server));
  closing.push(stack);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

/** All providers at one address. */
export const at = (url: string): string[] => providers.map((name) => `${name}=${url}`);

/** An answer of Anthropic that is no stream. */
export const message = (text: string, usage: Record<string, number> = { input_tokens: 10, output_tokens: 5 }): string =>
  JSON.stringify({ type: 'message', model: 'claude-sonnet-4-5', content: [{ type: 'text', text }], usage });

async function closed(server: Server): Promise<void> {
  if (!server.listening) return;
  const over = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await over;
}
