/**
 * Puts endpoints into the app. Every one goes through the same steps: who is it, may they, is what they sent well formed;
 * then the work, and a line in the audit log. An endpoint without a decision on who may come in cannot be written.
 */

import type { Hono } from 'hono';
import type { AuditEntry, Right } from '../../protocol/access.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Endpoint } from '../../protocol/http/endpoint.ts';
import type { SessionInfo } from '../../protocol/http/sessions.ts';
import { credentialText } from '../access/audit.ts';
import type { Access, Principal } from '../access/contract.ts';
import { noSession, requireRight, requireScope } from '../access/rights.ts';
import type { SessionHost } from '../sessions/contract.ts';
import { authenticate } from './authenticate.ts';
import { readJson } from './body.ts';
import { type Exchange, type ExchangeContext, remoteOf } from './exchange.ts';
import { invalid, toCellaError } from './failure.ts';

export interface Parts {
  readonly access: Access;
  readonly host: SessionHost;
  /** Of bodies that are JSON. */
  readonly bodyLimitBytes: number;
  /** Whether the server takes no new work. */
  readonly stopping: () => boolean;
}

export interface Call<Params, Query, Body> {
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  readonly principal: Principal;
  readonly context: ExchangeContext;
  /** Says in the audit log what it was done to, where the path does not. */
  readonly about: (audited: Pick<AuditEntry, 'session' | 'target'>) => void;
}

/** Again, for what goes on for long: fails where the token is no longer good, or the right is not there. */
export type Recheck = (right?: Right) => Promise<Principal>;

export interface SessionCall<Params, Query, Body> extends Call<Params, Query, Body> {
  readonly info: SessionInfo;
  readonly recheck: Recheck;
}

type Done = Pick<AuditEntry, 'session' | 'target' | 'outcome' | 'code'>;
type Handler<C, Result> = (call: C) => Promise<Result | Response>;

/** Of these the event log tells who did them, and their callers wait for milliseconds. */
const HOT = new Set(['session.execute', 'session.input', 'session.interrupt']);

export class Routes {
  readonly endpoints: Endpoint[] = [];
  readonly #app: Hono<Exchange>;
  readonly #parts: Parts;

  constructor(app: Hono<Exchange>, parts: Parts) {
    this.#app = app;
    this.#parts = parts;
  }

  /** For whoever has no token. */
  open<P, Q, B, R>(endpoint: Endpoint<P, Q, B, R>, handle: Handler<Omit<Call<P, Q, B>, 'principal'>, R>): void {
    this.#put(endpoint, async (c, about) => handle({ ...(await this.#parse(endpoint, c)), context: c, about }));
  }

  add<P, Q, B, R>(endpoint: Endpoint<P, Q, B, R>, handle: Handler<Call<P, Q, B>, R>): void {
    this.#put(endpoint, async (c, about) => {
      const principal = await this.#enter(c, endpoint);
      if (endpoint.access.kind === 'admin') requireScope(principal, 'admin');
      return await handle({ ...(await this.#parse(endpoint, c)), principal, context: c, about });
    });
  }

  /** For what is done to the session that the path names. */
  session<P, Q, B, R>(endpoint: Endpoint<P, Q, B, R>, handle: Handler<SessionCall<P, Q, B>, R>): void {
    const { access } = endpoint;
    if (access.kind !== 'session') throw new Error(`${endpoint.path} is no route of a session`);
    this.#put(endpoint, async (c, about) => {
      const principal = await this.#enter(c, endpoint);
      const id = c.req.param('id') ?? '';
      about({ session: id.slice(0, 100) });
      const look = async (as: Principal, right: Right) => {
        const info = await this.#find(id);
        requireRight(as, info, right);
        return info;
      };
      const info = await look(principal, access.right);
      const recheck: Recheck = async (right = access.right) => {
        const again = await authenticate(c, this.#parts.access);
        await look(again, right);
        return again;
      };
      return await handle({ ...(await this.#parse(endpoint, c)), principal, context: c, about, info, recheck });
    });
  }

  #put(
    endpoint: Endpoint,
    answer: (c: ExchangeContext, about: Call<unknown, unknown, unknown>['about']) => Promise<unknown>,
  ): void {
    this.endpoints.push(endpoint);
    const path = endpoint.path.replaceAll(/\{(\w+)\}/g, ':$1');
    this.#app.on(endpoint.method.toUpperCase(), path, async (c) => {
      c.set('route', endpoint.path);
      let audited: Pick<AuditEntry, 'session' | 'target'> = {};
      const about: Call<unknown, unknown, unknown>['about'] = (more) => {
        audited = { ...audited, ...more };
      };
      try {
        if (this.#parts.stopping() && !endpoint.whileStopping) throw stopping();
        const result = await answer(c, about);
        await this.#audit(c, endpoint, { ...audited, outcome: 'ok' });
        return respond(result, endpoint.status);
      } catch (error) {
        const { code } = toCellaError(error, c.get('requestId'));
        const outcome = refusals.has(code) ? 'refused' : 'failed';
        await this.#audit(c, endpoint, { ...audited, outcome, code });
        throw error;
      }
    });
  }

  async #enter(c: ExchangeContext, endpoint: Endpoint): Promise<Principal> {
    const { access } = this.#parts;
    const principal = await authenticate(c, access);
    c.set('principal', principal);
    if (principal.credential.kind !== 'daemon') access.rates.admit(principal.credential.id);
    if (endpoint.access.kind === 'everybody') throw new Error(`${endpoint.path} is open`);
    return principal;
  }

  /** What somebody may not see looks like what is not there. */
  async #find(id: string): Promise<SessionInfo> {
    try {
      return await this.#parts.host.get(id);
    } catch (error) {
      if (error instanceof CellaError && ['NOT_FOUND', 'INVALID_NAME', 'INVALID_REQUEST'].includes(error.code)) {
        throw noSession(id);
      }
      throw error;
    }
  }

  async #parse<P, Q, B>({ params, query, body, takes }: Endpoint<P, Q, B>, c: ExchangeContext) {
    const given = takes === undefined && hasBody(c) ? await readJson(c.req.raw, this.#parts.bodyLimitBytes) : undefined;
    return {
      params: parsed(params, c.req.param()),
      query: parsed(query, queryOf(c)),
      body: parsed(body, given),
    };
  }

  /** For what is done later, in the name of a request that was let in. */
  audit(c: ExchangeContext, action: string, entry: Done): void {
    void this.#write(c, action, entry);
  }

  async #audit(c: ExchangeContext, { audit: action }: Endpoint, entry: Done): Promise<void> {
    // Whoever is nobody, or sends too much, must not be able to fill the log.
    const unknown = !c.get('principal') && action !== 'login';
    if (action === undefined || entry.code === 'RATE_LIMITED' || unknown) return;
    const written = this.#write(c, action, entry);
    if (!HOT.has(action)) await written;
  }

  async #write(c: ExchangeContext, action: string, entry: Done): Promise<void> {
    const principal = c.get('principal');
    const who = principal && {
      userId: principal.userId,
      userName: principal.userName,
      credential: credentialText(principal.credential),
    };
    try {
      await this.#parts.access.audit.append({ ...who, action, from: remoteOf(c.env), ...entry });
    } catch (error) {
      c.get('log').error({ err: error, action }, 'the audit log could not be written');
    }
  }
}

const refusals = new Set(['UNAUTHENTICATED', 'FORBIDDEN', 'NOT_FOUND', 'RATE_LIMITED', 'QUOTA_EXCEEDED']);

function stopping(): CellaError {
  return new CellaError('DAEMON_STOPPING', 'The server is ending and takes no new work.', {
    details: { retryAfterMs: 5000 },
  });
}

function respond(result: unknown, status: number): Response {
  if (result instanceof Response) return result;
  if (result === undefined) return new Response(null, { status: status === 200 ? 204 : status });
  return new Response(JSON.stringify(result), { status, headers: { 'content-type': 'application/json' } });
}

function parsed<T>(schema: Endpoint<T>['params'], value: unknown): T {
  const outcome = schema.safeParse(value);
  if (outcome.success) return outcome.data;
  throw invalid(outcome.error);
}

/** A name that stands there several times is a list. */
function queryOf(c: ExchangeContext): Record<string, string | string[]> {
  const entries = Object.entries(c.req.queries());
  return Object.fromEntries(entries.map(([name, values]) => [name, values.length > 1 ? values : (values[0] ?? '')]));
}

function hasBody(c: ExchangeContext): boolean {
  return c.req.method !== 'GET' && c.req.method !== 'HEAD';
}
