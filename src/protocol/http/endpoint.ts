/** One door of the daemon: what it takes, what it gives, and who may come in. Server, document and client read it. */

import { z } from 'zod';
import type { Right } from '../access-models.ts';
import { SessionId } from '../session-info.ts';

/**
 * Who may come in. `everybody`: without a token. `anybody`: with any valid one. `session`: with that right on the session
 * that the path names. `admin`: administrators.
 */
export type Access =
  | { readonly kind: 'everybody' }
  | { readonly kind: 'anybody' }
  | { readonly kind: 'session'; readonly right: Right }
  | { readonly kind: 'admin' };

export const anyone = { kind: 'everybody' } as const;
export const anyUser = { kind: 'anybody' } as const;
export const adminOnly = { kind: 'admin' } as const;
export const mayView = { kind: 'session', right: 'view' } as const;
export const mayUse = { kind: 'session', right: 'use' } as const;
export const mayManage = { kind: 'session', right: 'manage' } as const;

export type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';

export interface Endpoint<Params = unknown, Query = unknown, Body = unknown, Result = unknown> {
  readonly method: Method;
  /** Variable parts in braces: `/v1/sessions/{id}`. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  readonly access: Access;
  readonly params: z.ZodType<Params>;
  readonly query: z.ZodType<Query>;
  /** Headers that it heeds beside those of every request. */
  readonly headers: z.ZodType;
  readonly body: z.ZodType<Body>;
  readonly result: z.ZodType<Result>;
  /** Of an answer that is well: 204 has no body. */
  readonly status: 200 | 201 | 204;
  /** Media types beside JSON that the answer may have, or that it has alone where there is no `result`. */
  readonly gives: readonly string[];
  /** The media type of a body that is no JSON. */
  readonly takes: string | undefined;
  /** Whether it becomes a WebSocket. */
  readonly socket: boolean;
  /** What the audit log calls it: `session.execute`. What changes nothing has none. */
  readonly audit: string | undefined;
  /** Whether it is open while the server ends: reading is, and so is what helps running code to its end. */
  readonly whileStopping: boolean;
}

export const Nothing = z.undefined();
export const Anything = z.object({});
const OfSession = z.object({ id: SessionId });

type Given = {
  readonly params?: z.ZodType;
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  readonly result?: z.ZodType;
};
type Of<G extends Given, Name extends keyof Given, Otherwise> = G[Name] extends z.ZodType<infer T> ? T : Otherwise;

interface About {
  readonly summary: string;
  readonly headers?: z.ZodType;
  readonly socket?: boolean;
  readonly gives?: readonly string[];
  readonly takes?: string;
  readonly status?: 200 | 201 | 204;
  readonly audit?: string;
  readonly whileStopping?: boolean;
}

/** `what` is the method and the path: `get /v1/me`. */
export function endpoint<G extends Given>(
  what: `${Method} /${string}`,
  tag: string,
  access: Access,
  given: G & About,
): Endpoint<Of<G, 'params', unknown>, Of<G, 'query', unknown>, Of<G, 'body', undefined>, Of<G, 'result', undefined>> {
  const [method, path = ''] = what.split(' ');
  const { summary, gives = [], takes, status = given.result || gives.length > 0 ? 200 : 204 } = given;
  const { params = access.kind === 'session' ? OfSession : Anything, query = Anything } = given;
  const { body = Nothing, result = Nothing, audit, whileStopping = method === 'get' } = given;
  const { headers = Anything, socket = false } = given;
  const schemas = { params, query, headers, body, result };
  // The types of the schemas are those that the signature names: each default stands for what is not given.
  return {
    method,
    path,
    tag,
    summary,
    access,
    status,
    gives,
    takes,
    socket,
    audit,
    whileStopping,
    ...schemas,
  } as ReturnType<typeof endpoint<G>>;
}
