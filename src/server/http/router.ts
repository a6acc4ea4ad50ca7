/**
 * Adds the routes of a table to the app. Each request goes through the same steps: authenticate, find the session, check right
 * and scope, forward to the owner, parse, run the handler, audit. So an error is 401 before 404, 403 and 400, in that order.
 */

import { setTimeout as delay } from 'node:timers/promises';
import type { Hono } from 'hono';
import type { z } from 'zod';
import { BoundedMap } from '../../lib/bounded-map.ts';
import { bindContext, onBehalfOf } from '../../lib/event-loop.ts';
import type { Right } from '../../protocol/access-models.ts';
import type { Route, RouteTable, SessionAuth } from '../../protocol/api/route.ts';
import { CellaError } from '../../protocol/errors.ts';
import { parseOrThrow } from '../../protocol/parse.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import type { AccessControl } from '../access/access-control.ts';
import { type Principal, requireRight, requireScope, sessionNotFound } from '../access/authorization.ts';
import type { SessionForwarder } from '../cluster/session-forwarder.ts';
import { ByteLimit, type ByteReservation, ConcurrencyLimit, CREDENTIALS_AT_ONCE } from '../request-limits.ts';
import { drainingError } from '../server-control.ts';
import type { SessionManager } from '../sessions/session-manager.ts';
import type { UnreadLimit } from '../unread-limit.ts';
import { authenticate, READING_METHODS } from './authenticate.ts';
import { jsonResponse, readJson } from './bodies.ts';
import { invalidRequest } from './error-response.ts';
import type { AuditTarget, RequestAudit } from './request-audit.ts';
import type { RequestContext, RequestEnv, UpgradeOptions } from './server-context.ts';

/** How many maximum-size bodies one user may hold in memory. */
const LARGEST_AT_ONCE = 16;
/** Unfinished requests of one user. One whose client has gone counts until its work ends: each keeps its headers in memory. */
const MOST_UNFINISHED = 4000;
/** How long a rate-limited request waits for its response, and the pause before the next response to the same user. */
const REFUSAL_DELAY_MS = 250;
const REFUSAL_PACE_MS = 50;
const LONGEST_REFUSAL_MS = 5000;
/** Each piece of this size counts as one more request: parsing JSON takes time. The default rate allows 8 MB a second. */
const BYTES_PER_REQUEST = 16 * 1024;

interface RouterOptions {
  readonly access: AccessControl;
  readonly requestAudit: RequestAudit;
  readonly sessions: SessionManager;
  /** For JSON bodies. */
  readonly bodyLimitBytes: number;
  readonly unread: UnreadLimit;
  /** Whether the server takes no new work. */
  readonly draining: () => boolean;
  /** Forwards to the server that owns a session. Undefined if there are no other servers. */
  readonly forwarder?: Pick<SessionForwarder, 'forward'> | undefined;
}

/** The argument of a handler. */
export type Call<R extends Route = Route> = RouteCall<R> &
  (R['auth'] extends { kind: 'public' } ? unknown : UserCall) &
  (R['auth'] extends SessionAuth ? SessionCall : unknown);

interface RouteCall<R extends Route> {
  readonly params: z.output<R['params']>;
  readonly query: z.output<R['query']>;
  readonly headers: z.output<R['headers']>;
  readonly body: z.output<R['body']>;
  readonly context: RequestContext;
  readonly auditTarget: SetAuditTarget;
}

interface UserCall {
  readonly principal: Principal;
}

/** For routes of the session named in the path. */
interface SessionCall {
  readonly info: SessionInfo;
  readonly reauthorize: Reauthorize;
}

/** Sets the target of the audit entry if the path does not name it, and the outcome if it is known only later. */
type SetAuditTarget = (more: AuditTarget, outcome?: Promise<unknown>) => void;

/** Authorizes a long-lived connection again. Throws if the token is no longer valid or the right is gone. */
export type Reauthorize = (right?: Right) => Promise<Principal>;

type Answer<R extends Route> = R['response'] extends z.ZodUndefined
  ? Promise<void> | Promise<Response> | Promise<Response | undefined>
  : Promise<z.input<R['response']> | Response>;

/** One handler per route of a table. A missing handler does not compile. */
export type Handlers<T extends RouteTable> = { readonly [N in keyof T]: (call: Call<T[N]>) => Answer<T[N]> };

/** A handler as the router calls it. */
export type AnyHandler = (call: never) => Promise<unknown>;

export class Router {
  readonly #app: Hono<RequestEnv>;
  readonly #parts: RouterOptions;
  /** Memory of incomplete messages, and of bodies until their request is finished, by user. */
  readonly #held: ByteLimit;
  readonly #unfinished = new ConcurrencyLimit(MOST_UNFINISHED, tooManyUnfinished);
  /** When the response to each user's latest rate-limited request is due. */
  readonly #refusedAt = new BoundedMap<string, number>(10_000);

  constructor(app: Hono<RequestEnv>, parts: RouterOptions) {
    this.#app = app;
    this.#held = new ByteLimit(LARGEST_AT_ONCE * parts.bodyLimitBytes);
    this.#parts = parts;
  }

  register<T extends RouteTable>(routes: T, handlers: Handlers<T>): void;
  register(routes: RouteTable, handlers: Readonly<Record<string, AnyHandler>>): void {
    for (const [name, route] of Object.entries(routes)) {
      const handle = handlers[name];
      if (!handle) throw new Error(`${name} has no handler`);
      this.#add(route, handle);
    }
  }

  #add(route: Route, handle: AnyHandler): void {
    const { requestAudit, draining } = this.#parts;
    const path = route.path.replaceAll(/\{(\w+)\}/g, ':$1');
    this.#app.on(route.method, path, async (c) => {
      c.set('route', route.path);
      let audited: AuditTarget = {};
      let later: Promise<unknown> | undefined;
      const auditTarget: SetAuditTarget = (more, outcome) => {
        audited = { ...audited, ...more };
        later = outcome ?? later;
      };
      try {
        if (draining() && !route.whileDraining) throw drainingError();
        const result = await this.#answer(route, c, auditTarget, handle);
        if (later) void requestAudit.settled(c, route.audit, audited, later);
        else await requestAudit.done(c, route.audit, audited);
        return await respond(result, route.status);
      } catch (error) {
        await requestAudit.failed(c, route.audit, audited, error);
        await this.#slowDown(c.get('principal'), error);
        throw error;
      }
    });
  }

  async #answer(route: Route, c: RequestContext, auditTarget: SetAuditTarget, handle: AnyHandler): Promise<unknown> {
    const { auth } = route;
    const work = async (more: object) => {
      // A handler may wait for long with what it got.
      using held = new DisposableStack();
      const room = () => held.use(this.reserveBytes(c));
      const parts = await readRequest(route, c, { limitBytes: this.#parts.bodyLimitBytes, room });
      const call = { ...parts, context: c, auditTarget, ...more };
      // Safe: the table pairs each handler with the route whose schemas parsed this call.
      return await handle(call as never);
    };
    if (auth.kind === 'public') return await work({});
    const principal = await this.#enter(c);
    using _place = this.#unfinished.enter(principal.userId);
    const session = auth.kind === 'session' ? await this.#enterSession(c, auth, principal, auditTarget) : undefined;
    if (auth.scope !== undefined) requireScope(principal, auth.scope);
    // Forward before reading the body: the owner reads it.
    const answered = session && (await this.#parts.forwarder?.forward(c, session.info, session.claim));
    if (answered) return answered;
    return await workFor(principal, c, () => work({ principal, ...session }));
  }

  async #enterSession(c: RequestContext, auth: SessionAuth, principal: Principal, auditTarget: SetAuditTarget) {
    const id = c.req.param('id') ?? '';
    auditTarget({ session: id.slice(0, 100) });
    const authorize = async (as: Principal, right: Right) => {
      const info = await this.#find(id);
      requireRight(as, info, right);
      return info;
    };
    const reauthorize: Reauthorize = async (right = auth.right) => {
      const again = await authenticate(c, this.#parts.access);
      await authorize(again, right);
      return again;
    };
    return { info: await authorize(principal, auth.right), reauthorize, claim: auth.claim };
  }

  async #enter(c: RequestContext): Promise<Principal> {
    const { access } = this.#parts;
    const principal = await authenticate(c, access);
    c.set('principal', principal);
    c.env.userId = principal.userId;
    if (c.env.upgrade) c.env.upgrade.options = this.#upgradeOptions(c, principal);
    // A forwarded request was counted by the server that forwarded it.
    if (!c.get('forwardMark')) admitRequest(access, principal);
    return principal;
  }

  #upgradeOptions(c: RequestContext, { userId }: Principal): UpgradeOptions {
    const { requestAudit, unread } = this.#parts;
    const target = { session: c.req.param('id'), code: 'RATE_LIMITED' };
    return {
      room: () => this.reserveBytes(c),
      unread: (cut) => unread.open(userId, cut),
      onRefused: (detail) => requestAudit.refused(c, 'rate', { ...target, detail }),
    };
  }

  /** Reserves memory for this request's body, or for a WebSocket's messages until it closes. */
  reserveBytes(c: RequestContext): ByteReservation {
    const principal = c.get('principal');
    // Routes without a token accept no body.
    const hold = this.#held.reserve(principal?.userId ?? '');
    // A forwarded request was counted by the server that forwarded it.
    return principal && !c.get('forwardMark')
      ? counted(hold, (requests) => admitRequest(this.#parts.access, principal, requests))
      : hold;
  }

  /**
   * Delays the responses to a rate-limited user, one after the other. Meanwhile the server reads nothing more from those
   * connections and has time for other users.
   */
  async #slowDown(principal: Principal | undefined, error: unknown): Promise<void> {
    if (!principal || !(error instanceof CellaError) || error.code !== 'RATE_LIMITED') return;
    const now = performance.now();
    const after = (this.#refusedAt.get(principal.userId) ?? 0) + REFUSAL_PACE_MS;
    const at = Math.min(Math.max(now + REFUSAL_DELAY_MS, after), now + LONGEST_REFUSAL_MS);
    this.#refusedAt.set(principal.userId, at);
    await delay(at - now);
  }

  /** A session that the principal may not see looks nonexistent. */
  async #find(id: string): Promise<SessionInfo> {
    try {
      return await this.#parts.sessions.get(id);
    } catch (error) {
      if (error instanceof CellaError && ['NOT_FOUND', 'INVALID_NAME', 'INVALID_REQUEST'].includes(error.code)) {
        throw sessionNotFound(id);
      }
      throw error;
    }
  }
}

const tooManyUnfinished = (most: number): CellaError =>
  new CellaError('RATE_LIMITED', `${most} requests of this user are unfinished.`, { details: { retryAfterMs: 1000 } });

/** Counts per token or login, and per user, who may have many tokens. */
export function admitRequest(
  { rates }: Pick<AccessControl, 'rates'>,
  { authMethod, userId }: Principal,
  cost = 1,
): void {
  if (authMethod.kind === 'server') return;
  rates.admit(authMethod.id, cost);
  rates.admit(`user ${userId}`, cost / CREDENTIALS_AT_ONCE);
}

/** Counts bytes as requests before they are held, however small the pieces are. */
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

/** Makes a user's work take turns with other users' work, including later work of a WebSocket. */
async function workFor<R>({ userId }: Principal, { env }: RequestContext, work: () => Promise<R>): Promise<R> {
  return await onBehalfOf(userId, async () => {
    const result = await work();
    if (env.upgrade?.accept) env.upgrade.accept = bindContext(env.upgrade.accept);
    return result;
  });
}

/** The caller ends the reservation of `room`. */
export async function readRequest(
  { params, query, headers, body, consumes }: Route,
  c: RequestContext,
  { limitBytes, room }: { readonly limitBytes: number; readonly room: () => ByteReservation },
) {
  const hold = consumes === undefined && !READING_METHODS.has(c.req.method) ? room() : undefined;
  const given = hold && (await readJson(c.req.raw, limitBytes, hold));
  return {
    params: parsePart(params, c.req.param()),
    query: parsePart(query, queryOf(c)),
    // Only the headers that the route declares.
    headers: parsePart(
      headers,
      Object.fromEntries(Object.keys(headers.shape).map((name) => [name, c.req.header(name)])),
    ),
    body: parsePart(body, withFewNames(given)),
  };
}

async function respond(result: unknown, status: number): Promise<Response> {
  if (result instanceof Response) return result;
  if (result === undefined) return new Response(null, { status: status === 200 ? 204 : status });
  return await jsonResponse(result, status);
}

/** Limit on the names in a body and in each of its objects: schemas take microseconds per name. */
const MOST_NAMES = 1000;

function withFewNames(body: unknown): unknown {
  const check = (value: unknown, part: string) => {
    const count = typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value).length : 0;
    if (count <= MOST_NAMES) return;
    throw new CellaError('INVALID_REQUEST', `${part} has ${count} names; the limit is ${MOST_NAMES}.`);
  };
  check(body, 'The body');
  if (typeof body === 'object' && body !== null) {
    for (const [name, value] of Object.entries(body)) check(value, JSON.stringify(name.slice(0, 100)));
  }
  return body;
}

function parsePart(schema: z.ZodType, value: unknown): unknown {
  return parseOrThrow(schema, value, invalidRequest);
}

/** A repeated name becomes a list. */
function queryOf(c: RequestContext): Record<string, string | string[]> {
  const entries = Object.entries(c.req.queries());
  return Object.fromEntries(entries.map(([name, values]) => [name, values.length > 1 ? values : (values[0] ?? '')]));
}
