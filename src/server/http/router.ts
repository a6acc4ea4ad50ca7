/**
 * Adds endpoints to the app. Each request goes through the same steps: authenticate, authorize, forward to the owner, parse,
 * run the handler, audit. An endpoint that does not say who may call it does not compile.
 */

import { setTimeout as delay } from 'node:timers/promises';
import type { Hono } from 'hono';
import { BoundedMap } from '../../lib/bounded-map.ts';
import { bindContext, onBehalfOf } from '../../lib/event-loop.ts';
import type { Right } from '../../protocol/access-models.ts';
import type { Route } from '../../protocol/api/route.ts';
import { CellaError } from '../../protocol/errors.ts';
import { IdempotencyKey } from '../../protocol/execution-events.ts';
import { parseOrThrow } from '../../protocol/parse.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import type { AccessControl } from '../access/access-control.ts';
import { type Principal, requireRight, requireScope, sessionNotFound } from '../access/authorization.ts';
import type { SessionForwarder } from '../cluster/session-forwarder.ts';
import { jsonText } from '../json-pieces.ts';
import { drainingError } from '../request-errors.ts';
import { ByteBudget, type ByteReservation } from '../request-limits.ts';
import type { SessionManager } from '../sessions/session-types.ts';
import { authenticate } from './authenticate.ts';
import { readJson } from './bodies.ts';
import { invalidRequest } from './error-response.ts';
import { textResponse } from './node-adapter.ts';
import type { AuditTarget, RequestAudit } from './request-audit.ts';
import type { RequestContext, RequestEnv } from './request-context.ts';

/** How many bodies of the largest size one user may have in memory at once. */
const LARGEST_AT_ONCE = 16;
/** All tokens of one user together may send as much as this many single tokens. */
const TOKENS_AT_ONCE = 4;
/** How long a rate-limited request waits for its response, and the pause before the next response to the same user. */
const REFUSAL_DELAY_MS = 250;
const REFUSAL_PACE_MS = 50;
const LONGEST_REFUSAL_MS = 5000;
/** Parsing JSON takes time by its length: each such piece counts as one more request. The default rate allows 8 MB a second. */
const BYTES_PER_REQUEST = 16 * 1024;

export interface RouterOptions {
  readonly access: AccessControl;
  readonly requestAudit: RequestAudit;
  readonly host: SessionManager;
  /** Of bodies that are JSON. */
  readonly bodyLimitBytes: number;
  /** Whether the server takes no new work. */
  readonly stopping: () => boolean;
  /** Forwards to the server that owns a session. Undefined if there are no other servers. */
  readonly forwarder?: Pick<SessionForwarder, 'forward'> | undefined;
}

export interface Call<Params, Query, Body> {
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  readonly principal: Principal;
  readonly context: RequestContext;
  readonly auditTarget: SetAuditTarget;
}

/** Sets the target of the audit entry if the path does not name it, and the outcome if it is known only later. */
type SetAuditTarget = (more: AuditTarget, outcome?: Promise<unknown>) => void;

/** Authorizes again, for long-lived connections. Fails if the token is no longer valid or the right is gone. */
export type Reauthorize = (right?: Right) => Promise<Principal>;

export interface SessionCall<Params, Query, Body> extends Call<Params, Query, Body> {
  readonly info: SessionInfo;
  readonly reauthorize: Reauthorize;
}

type Handler<C, Result> = (call: C) => Promise<Result | Response>;

export class Router {
  readonly endpoints: Route[] = [];
  readonly requestAudit: RequestAudit;
  readonly #app: Hono<RequestEnv>;
  readonly #parts: RouterOptions;
  /** Of bodies that are being read and messages that have not come to their end, by user. */
  readonly #held: ByteBudget;
  /** When each user's latest request too many has its answer. */
  readonly #refusedAt = new BoundedMap<string, number>(10_000);

  constructor(app: Hono<RequestEnv>, parts: RouterOptions) {
    this.#app = app;
    this.#held = new ByteBudget(LARGEST_AT_ONCE * parts.bodyLimitBytes);
    this.#parts = parts;
    this.requestAudit = parts.requestAudit;
  }

  /** For endpoints that need no token. */
  open<P, Q, B, R>(endpoint: Route<P, Q, B, R>, handle: Handler<Omit<Call<P, Q, B>, 'principal'>, R>): void {
    expectAccess(endpoint, 'everybody');
    this.#put(endpoint, async (c, auditTarget) =>
      handle({ ...(await this.#read(endpoint, c)), context: c, auditTarget }),
    );
  }

  add<P, Q, B, R>(endpoint: Route<P, Q, B, R>, handle: Handler<Call<P, Q, B>, R>): void {
    expectAccess(endpoint, 'anybody', 'admin');
    this.#put(endpoint, async (c, auditTarget) => {
      const principal = await this.#enter(c);
      if (endpoint.access.kind === 'admin') requireScope(principal, 'admin');
      return await workFor(principal, c, async () =>
        handle({ ...(await this.#read(endpoint, c)), principal, context: c, auditTarget }),
      );
    });
  }

  /** For endpoints of the session that the path names. */
  session<P, Q, B, R>(endpoint: Route<P, Q, B, R>, handle: Handler<SessionCall<P, Q, B>, R>): void {
    const { access } = endpoint;
    if (access.kind !== 'session') throw new Error(`${endpoint.path} is no route of a session`);
    this.#put(endpoint, async (c, auditTarget) => {
      const principal = await this.#enter(c);
      const id = c.req.param('id') ?? '';
      auditTarget({ session: id.slice(0, 100) });
      const look = async (as: Principal, right: Right) => {
        const info = await this.#find(id);
        requireRight(as, info, right);
        return info;
      };
      const info = await look(principal, access.right);
      const answered = await this.#parts.forwarder?.forward(c, info, endpoint);
      if (answered) return answered;
      const reauthorize: Reauthorize = async (right = access.right) => {
        const again = await authenticate(c, this.#parts.access);
        await look(again, right);
        return again;
      };
      return await workFor(principal, c, async () =>
        handle({ ...(await this.#read(endpoint, c)), principal, context: c, auditTarget, info, reauthorize }),
      );
    });
  }

  #put(endpoint: Route, answer: (c: RequestContext, auditTarget: SetAuditTarget) => Promise<unknown>): void {
    this.endpoints.push(endpoint);
    const path = endpoint.path.replaceAll(/\{(\w+)\}/g, ':$1');
    this.#app.on(endpoint.method.toUpperCase(), path, async (c) => {
      c.set('route', endpoint.path);
      let audited: AuditTarget = {};
      let later: Promise<unknown> | undefined;
      const auditTarget: SetAuditTarget = (more, outcome) => {
        audited = { ...audited, ...more };
        later = outcome ?? later;
      };
      try {
        if (this.#parts.stopping() && !endpoint.whileDraining) throw drainingError();
        const result = await answer(c, auditTarget);
        if (later) void this.requestAudit.settled(c, endpoint.audit, audited, later);
        else await this.requestAudit.done(c, endpoint.audit, audited);
        return await respond(result, endpoint.status);
      } catch (error) {
        await this.requestAudit.failed(c, endpoint.audit, audited, error);
        await this.#slowDown(c.get('principal'), error);
        throw error;
      }
    });
  }

  async #enter(c: RequestContext): Promise<Principal> {
    const { access } = this.#parts;
    const principal = await authenticate(c, access);
    c.set('principal', principal);
    if (c.env.upgrade) c.env.upgrade.room = () => this.room(c);
    // A forwarded request was counted by the server that forwarded it.
    if (!c.get('forwardMark')) admitRequest(access, principal);
    return principal;
  }

  /** For the body of this request, until it is read; for the messages of this WebSocket, until it is closed. */
  room(c: RequestContext): ByteReservation {
    const principal = c.get('principal');
    // Endpoints without a token take no body.
    const hold = this.#held.reserve(principal?.userId ?? '');
    // A forwarded request was counted by the server that forwarded it.
    return principal && !c.get('forwardMark')
      ? counted(hold, (requests) => admitRequest(this.#parts.access, principal, requests))
      : hold;
  }

  /**
   * Delays the responses to a user who sends too much, one after the other. Until then the server reads nothing more from
   * those connections and has time for others.
   */
  async #slowDown(principal: Principal | undefined, error: unknown): Promise<void> {
    if (!principal || !(error instanceof CellaError) || error.code !== 'RATE_LIMITED') return;
    const now = performance.now();
    const after = (this.#refusedAt.get(principal.userId) ?? 0) + REFUSAL_PACE_MS;
    const at = Math.min(Math.max(now + REFUSAL_DELAY_MS, after), now + LONGEST_REFUSAL_MS);
    this.#refusedAt.set(principal.userId, at);
    await delay(at - now);
  }

  #read<P, Q, B>(endpoint: Route<P, Q, B>, c: RequestContext) {
    const { bodyLimitBytes } = this.#parts;
    return readRequest(endpoint, c, { limitBytes: bodyLimitBytes, room: () => this.room(c) });
  }

  /** A session that the principal may not see looks as if it did not exist. */
  async #find(id: string): Promise<SessionInfo> {
    try {
      return await this.#parts.host.get(id);
    } catch (error) {
      if (error instanceof CellaError && ['NOT_FOUND', 'INVALID_NAME', 'INVALID_REQUEST'].includes(error.code)) {
        throw sessionNotFound(id);
      }
      throw error;
    }
  }
}

/** Counts per token or login, and per user, who may have many tokens. */
export function admitRequest(
  { rates }: Pick<AccessControl, 'rates'>,
  { authMethod, userId }: Principal,
  cost = 1,
): void {
  if (authMethod.kind === 'server') return;
  rates.admit(authMethod.id, cost);
  rates.admit(`user ${userId}`, cost / TOKENS_AT_ONCE);
}

/** Counts bytes as requests before they are held, however small the pieces they come in. */
function counted(hold: ByteReservation, admit: (requests: number) => void): ByteReservation {
  let [held, sent] = [0, 0];
  const be = (bytes: number) => {
    const before = sent;
    sent += Math.max(0, bytes - held);
    const more = Math.floor(sent / BYTES_PER_REQUEST) - Math.floor(before / BYTES_PER_REQUEST);
    if (more > 0) admit(more);
    held = bytes;
    hold.resize(bytes);
  };
  return { resize: be, add: (bytes) => be(held + bytes), [Symbol.dispose]: () => hold[Symbol.dispose]() };
}

/** A route that is added in the wrong way is a bug, and keeps the server from starting. */
function expectAccess({ path, access }: Route, ...kinds: Route['access']['kind'][]): void {
  if (!kinds.includes(access.kind)) throw new Error(`${path} is for ${access.kind}`);
}

/** Long work of one user takes turns with that of others, including later work of a WebSocket. */
async function workFor<R>({ userId }: Principal, { env }: RequestContext, work: () => Promise<R>): Promise<R> {
  return await onBehalfOf(userId, async () => {
    const result = await work();
    if (env.upgrade?.accept) env.upgrade.accept = bindContext(env.upgrade.accept);
    return result;
  });
}

export async function readRequest<P, Q, B>(
  { params, query, body, takes }: Route<P, Q, B>,
  c: RequestContext,
  { limitBytes, room }: { readonly limitBytes: number; readonly room: () => ByteReservation },
) {
  using hold = takes === undefined && mayHaveBody(c) ? room() : undefined;
  const given = hold && (await readJson(c.req.raw, limitBytes, hold));
  return {
    params: parsePart(params, c.req.param()),
    query: parsePart(query, queryOf(c)),
    body: parsePart(body, withFewNames(given)),
  };
}

export async function respond(result: unknown, status: number): Promise<Response> {
  if (result instanceof Response) return result;
  if (result === undefined) return new Response(null, { status: status === 200 ? 204 : status });
  return textResponse(await jsonText(result), { status, headers: { 'content-type': 'application/json' } });
}

/** Names in a body, and in each object in it: schemas take microseconds for each. */
const MOST_NAMES = 1000;

function withFewNames(body: unknown): unknown {
  const check = (value: unknown, place: string) => {
    const count = typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value).length : 0;
    if (count <= MOST_NAMES) return;
    throw new CellaError('INVALID_REQUEST', `${place} has ${count} names, and may have ${MOST_NAMES} at most.`);
  };
  check(body, 'The body');
  if (typeof body === 'object' && body !== null) {
    for (const [name, value] of Object.entries(body)) check(value, JSON.stringify(name.slice(0, 100)));
  }
  return body;
}

function parsePart<T>(schema: Route<T>['params'], value: unknown): T {
  return parseOrThrow(schema, value, invalidRequest);
}

/** A name that occurs several times is a list. */
function queryOf(c: RequestContext): Record<string, string | string[]> {
  const entries = Object.entries(c.req.queries());
  return Object.fromEntries(entries.map(([name, values]) => [name, values.length > 1 ? values : (values[0] ?? '')]));
}

function mayHaveBody(c: RequestContext): boolean {
  return c.req.method !== 'GET' && c.req.method !== 'HEAD';
}

export function idempotencyKeyOf(context: RequestContext): string | undefined {
  const given = context.req.header('idempotency-key');
  if (given === undefined) return undefined;
  return parseOrThrow(IdempotencyKey, given, invalidRequest);
}
