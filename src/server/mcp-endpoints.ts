/**
 * Serves every session over MCP. An endpoint is created on first use, and kept while clients use it.
 *
 * The SDK keeps a message until it is answered, and its results until the client reads them, so both are limited here.
 */

import { z } from 'zod';
import type { CallLimits, KeptConnection } from '../mcp/mcp-executions.ts';
import type { SessionMcp, SessionMcpOptions } from '../mcp/session-mcp.ts';
import { CellaError } from '../protocol/errors.ts';
import type { SessionInfo } from '../protocol/session-info.ts';
import { readJson } from './http/bodies.ts';
import type { ServerContext } from './http/server-context.ts';
import { admitExecution, openKernel } from './quotas/user-quotas.ts';
import { type ByteReservation, ConcurrencyLimit } from './request-limits.ts';
import type { UnreadLimit } from './unread-limit.ts';

/** Serves a session over MCP. */
export type MakeMcp = (session: Omit<SessionMcpOptions, 'version'>) => Promise<SessionMcp>;

/** Beyond this, the endpoint that was unused longest is closed, of those in the sessions of the user who has most. */
const MOST_ENDPOINTS = 256;
const MOST_MESSAGE_BYTES = 4 * 1024 * 1024;
/** Of a message without the arguments of its call, which count as queued code. */
const MOST_ENVELOPE_CHARACTERS = 65_536;
/** The SDK remembers the id of a request that was cancelled. */
const MOST_ID_CHARACTERS = 256;
/** Connections of one user that are kept, in all sessions. Each takes about 100 KB. */
const MOST_CONNECTIONS = 256;
/** Unfinished calls of one user: also those whose client has gone. */
const MOST_CALLS = 1000;

type EndpointParts = Pick<ServerContext, 'sessions' | 'access' | 'kernels' | 'storageQuota' | 'unread'>;

interface McpCall {
  readonly info: SessionInfo;
  readonly request: Request;
  readonly userId: string;
  /** Counts the memory that the message takes. */
  readonly hold: ByteReservation;
  readonly log: (line: string) => void;
}

interface Endpoint {
  /** The owner of its session. */
  readonly ownerId: string;
  readonly made: Promise<SessionMcp>;
}

export class McpEndpoints {
  readonly #parts: EndpointParts;
  readonly #make: MakeMcp;
  readonly #limits: CallLimits;
  /** Least recently used first. */
  readonly #endpoints = new Map<string, Endpoint>();

  constructor(
    parts: EndpointParts,
    { version, mcp }: { readonly version: string; readonly mcp?: MakeMcp | undefined },
  ) {
    this.#parts = parts;
    this.#limits = callLimits(parts.unread);
    // The SDK loads when the first client comes.
    const load: MakeMcp = async (session) =>
      (await import('../mcp/session-mcp.ts')).openSessionMcp({ ...session, version });
    this.#make = mcp ?? load;
  }

  async answer({ info, request, userId, hold, log }: McpCall): Promise<Response> {
    const { url, method, headers, signal } = request;
    const message = await readMessage(request, hold);
    const endpoint = await this.#of(info, log);
    return await endpoint.answer({ request: new Request(url, { method, headers, signal }), message, userId });
  }

  #of({ id, ownerId, agentKey, settings }: SessionInfo, log: (line: string) => void): Promise<SessionMcp> {
    const { sessions } = this.#parts;
    const open = sessions.allowsRuntimeDeps(settings);
    // What a server offers depends on whether packages can be changed.
    const key = `${id} ${open}`;
    const api = async () => openKernel(this.#parts, await sessions.get(id));
    const toRun = async () => {
      await admitExecution(this.#parts, await sessions.get(id));
      return await (await sessions.open(id)).api();
    };
    const inProcess = settings.executor === 'in-process';
    const known = this.#endpoints.get(key);
    const make = () => this.#make({ agentKey, api, toRun, limits: this.#limits, open, inProcess, log });
    const endpoint = known ?? { ownerId, made: make() };
    this.#endpoints.delete(key);
    this.#endpoints.set(key, endpoint);
    // After a failure, the next request tries again.
    endpoint.made.catch(() => this.#endpoints.get(key) === endpoint && this.#endpoints.delete(key));
    if (this.#endpoints.size > MOST_ENDPOINTS) this.#dropOne();
    return endpoint.made;
  }

  /** Closing an endpoint stops its calls: nobody with many sessions may stop those of others. */
  #dropOne(): void {
    const counts = new Map<string, number>();
    for (const { ownerId } of this.#endpoints.values()) counts.set(ownerId, (counts.get(ownerId) ?? 0) + 1);
    const most = Math.max(...counts.values());
    const [oldest] = [...this.#endpoints].find(([, { ownerId }]) => counts.get(ownerId) === most) ?? [];
    if (oldest !== undefined) this.#drop(oldest);
  }

  close(): void {
    for (const key of [...this.#endpoints.keys()]) this.#drop(key);
  }

  #drop(key: string): void {
    const endpoint = this.#endpoints.get(key);
    this.#endpoints.delete(key);
    void endpoint?.made.then((made) => made.close()).catch(() => {}); // no caller waits for the close
  }
}

/** The kept connections of each user. Above the limit, the one that was unused longest is closed. */
class UserConnections {
  /** What closes each connection of a user. The one that was unused longest comes first. */
  readonly #ofUser = new Map<string, Set<() => void>>();

  keep(userId: string, drop: () => void): KeptConnection {
    const own = this.#ofUser.get(userId) ?? new Set();
    this.#ofUser.set(userId, own);
    own.add(drop);
    const [oldest] = own;
    if (own.size > MOST_CONNECTIONS) oldest?.();
    return {
      used: () => {
        if (own.delete(drop)) own.add(drop);
      },
      [Symbol.dispose]: () => {
        own.delete(drop);
        if (own.size === 0 && this.#ofUser.get(userId) === own) this.#ofUser.delete(userId);
      },
    };
  }
}

function callLimits(unread: UnreadLimit): CallLimits {
  const connections = new UserConnections();
  const calls = new ConcurrencyLimit(
    MOST_CALLS,
    (most) => new CellaError('RATE_LIMITED', `${most} MCP calls of this user are unfinished.`),
  );
  return {
    begin: (userId = '') => calls.enter(userId),
    reserve: async (userId = '', bytes, signal) => {
      using stack = new DisposableStack();
      const memory = stack.use(unread.open(userId));
      if (await memory.reserve(bytes, signal)) return stack.move();
      throw signal.reason;
    },
    hold: (userId = '', bytes, drop) => unread.hold(userId, bytes, drop),
    connect: (userId = '', drop) => connections.keep(userId, drop),
  };
}

/** Reads the body of a POST. Other requests have none. */
export async function readMessage(request: Request, hold: ByteReservation): Promise<unknown> {
  if (request.method !== 'POST') return undefined;
  const message = await readJson(request, MOST_MESSAGE_BYTES, hold);
  checkMessage(message);
  return message;
}

const Message = z.looseObject({ id: z.string().optional().catch(undefined), params: z.looseObject({}).optional() });

/** Limits what the SDK keeps of a message. It checks the rest. Batches exist in one revision of the protocol only. */
export function checkMessage(given: unknown): void {
  if (Array.isArray(given)) {
    throw new CellaError('INVALID_REQUEST', 'Batches of messages are not supported: send each message by itself.');
  }
  const { data: message } = Message.safeParse(given);
  if (!message || !('method' in message)) return;
  if ((message.id?.length ?? 0) > MOST_ID_CHARACTERS) {
    throw new CellaError('INVALID_REQUEST', `id: may have at most ${MOST_ID_CHARACTERS} characters.`);
  }
  const envelope = { ...message, params: { ...message.params, arguments: undefined } };
  if (JSON.stringify(envelope).length <= MOST_ENVELOPE_CHARACTERS) return;
  const text = `The message may have at most ${MOST_ENVELOPE_CHARACTERS} characters of JSON beside params.arguments.`;
  throw new CellaError('INVALID_REQUEST', text);
}
