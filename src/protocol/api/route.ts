/** One route of the API: method, path, schemas and who may call it. Server, OpenAPI document and client read the same value. */

import { z } from 'zod';
import type { Right } from '../access-models.ts';
import { describeIssues } from '../error-body.ts';
import { SessionId } from '../session-info.ts';

/**
 * Who may come in. `everybody`: without a token. `anybody`: with any valid one. `session`: with that right on the session
 * that the path names. `admin`: administrators.
 */
type RouteAuth =
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

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';

export interface Route<Params = unknown, Query = unknown, Body = unknown, Result = unknown> {
  readonly method: Method;
  /** Variable parts in braces: `/v1/sessions/{id}`. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  readonly access: RouteAuth;
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
  readonly whileDraining: boolean;
}

const NoContent = z.undefined();
const NoSchema = z.object({});
const SessionParams = z.object({ id: SessionId });

type RouteSchemas = {
  readonly params?: z.ZodType;
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  readonly result?: z.ZodType;
};
type SchemaOutput<G extends RouteSchemas, Name extends keyof RouteSchemas, Otherwise> =
  G[Name] extends z.ZodType<infer T> ? T : Otherwise;

interface RouteOptions {
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
export function route<G extends RouteSchemas>(
  what: `${Method} /${string}`,
  tag: string,
  access: RouteAuth,
  given: G & RouteOptions,
): Route<
  SchemaOutput<G, 'params', unknown>,
  SchemaOutput<G, 'query', unknown>,
  SchemaOutput<G, 'body', undefined>,
  SchemaOutput<G, 'result', undefined>
> {
  const [method, path = ''] = what.split(' ');
  const { summary, gives = [], takes, status = given.result || gives.length > 0 ? 200 : 204 } = given;
  const { params = access.kind === 'session' ? SessionParams : NoSchema, query = NoSchema } = given;
  const { body = NoContent, result = NoContent, audit, whileStopping = method === 'get' } = given;
  const { headers = NoSchema, socket = false } = given;
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
    whileDraining: whileStopping,
    ...schemas,
  } as ReturnType<typeof route<G>>;
}

const originals = new WeakMap<z.ZodType, z.ZodType>();

/** Takes what the schema takes, and gives it as it was written. */
export function validateOnly<S extends z.ZodType>(schema: S): z.ZodType<z.input<S>> {
  const checked = z.custom<z.input<S>>().superRefine((value, context) => {
    const outcome = schema.safeParse(value);
    for (const { path, message } of outcome.error ? describeIssues(outcome.error) : []) {
      context.addIssue({ code: 'custom', path: [...path], message });
    }
  });
  originals.set(checked, schema);
  return checked;
}

/** The schema that tells what it takes, for a document. */
export function schemaBehind(schema: z.ZodType): z.ZodType {
  return originals.get(schema) ?? schema;
}
