/**
 * One route of the API: method, path, schemas, who may call it and what the audit log calls it. Handlers, OpenAPI document and
 * client read the same value. The wire is `z.input` of a schema, the domain is `z.output`: the client sends input and gets
 * output, the handler gets output and returns input.
 */

import { z } from 'zod';
import { Right, type Scope } from '../access-models.ts';
import { describeIssues } from '../parse.ts';
import { SessionId } from '../session-info.ts';

/** No token needed. */
export interface PublicAuth {
  readonly kind: 'public';
}

/** Any user with a valid token or login, and with this scope if there is one. */
export interface UserAuth {
  readonly kind: 'user';
  readonly scope: Scope | undefined;
}

/** Users with this right on the session that the path names, and with this scope if there is one. */
export interface SessionAuth {
  readonly kind: 'session';
  readonly right: Right;
  readonly scope: Scope | undefined;
  /** Whether the server that gets the call becomes the owner of a session that has none. */
  readonly claim: boolean;
}

export type RouteAuth = PublicAuth | UserAuth | SessionAuth;

export const anyone: PublicAuth = { kind: 'public' };

export const user = (scope?: Scope): UserAuth => ({ kind: 'user', scope });

export const session = (
  right: Right,
  { scope, claim = true }: { readonly scope?: Scope; readonly claim?: boolean } = {},
): SessionAuth => ({ kind: 'session', right, scope, claim });

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

interface RouteSchemas {
  readonly params: z.ZodType;
  readonly query: z.ZodType;
  readonly headers: z.ZodObject;
  readonly body: z.ZodType;
  readonly response: z.ZodType;
}

/** The name of a call in the audit log. A buffered entry is written soon after the response, the others before it. */
export interface RouteAudit {
  readonly name: string;
  readonly buffered: boolean;
}

export interface Route<S extends RouteSchemas = RouteSchemas, A extends RouteAuth = RouteAuth> {
  readonly method: Method;
  /** Variable parts in braces: `/v1/sessions/{id}`. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  readonly auth: A;
  readonly params: S['params'];
  readonly query: S['query'];
  /** The headers that this route reads, in addition to those of every request. */
  readonly headers: S['headers'];
  readonly body: S['body'];
  readonly response: S['response'];
  /** The status of a successful response. 204 has no body. */
  readonly status: 200 | 201 | 204;
  /** One item of the response as a stream: a JSON line or a server-sent event, by `Accept`. */
  readonly stream: z.ZodType | undefined;
  /** Other media types that the response may have. */
  readonly produces: readonly string[];
  /** The media type of a body that is not JSON. */
  readonly consumes: string | undefined;
  /** The text frames, if the request becomes a WebSocket. */
  readonly socket: SocketFrames | undefined;
  /** Undefined for calls that change nothing. */
  readonly audit: RouteAudit | undefined;
  /** Whether the route works during shutdown, like reads and calls that help running code to finish. */
  readonly whileDraining: boolean;
}

interface SocketFrames {
  /** What a client may send. */
  readonly client: z.ZodType;
  /** What the server sends. */
  readonly server: z.ZodType;
}

/**
 * A header of every streamed response: after this many milliseconds without an item, the server sends a heartbeat, which is
 * an empty line or an SSE comment. If three heartbeats are missing, the connection is broken, even if it looks open.
 */
export const HEARTBEAT_HEADER = 'x-cella-heartbeat-ms';

const NoContent = z.undefined();
const NoFields = z.object({});
const SessionParams = z.object({ id: SessionId });

interface RouteOptions extends Partial<RouteSchemas> {
  readonly summary: string;
  readonly auth: RouteAuth;
  readonly status?: 200 | 201 | 204;
  readonly stream?: z.ZodType;
  readonly produces?: readonly string[];
  readonly consumes?: string;
  readonly socket?: SocketFrames;
  readonly audit?: string | RouteAudit;
  readonly whileDraining?: boolean;
}

type SchemaOf<O, Name extends string, Default> = O extends { readonly [N in Name]: infer S extends z.ZodType }
  ? S
  : Default;

/** `what` is the method and the path: `GET /v1/me`. */
export function route<O extends RouteOptions>(
  what: `${Method} /${string}`,
  tag: string,
  options: O,
): Route<
  {
    params: SchemaOf<O, 'params', O['auth'] extends SessionAuth ? typeof SessionParams : typeof NoFields>;
    query: SchemaOf<O, 'query', typeof NoFields>;
    headers: O extends { readonly headers: infer H extends z.ZodObject } ? H : typeof NoFields;
    body: SchemaOf<O, 'body', typeof NoContent>;
    response: SchemaOf<O, 'response', typeof NoContent>;
  },
  O['auth']
>;
export function route(what: `${Method} /${string}`, tag: string, options: RouteOptions): Route {
  const { auth, summary, stream, produces = [], consumes, socket, audit } = options;
  const { params = auth.kind === 'session' ? SessionParams : NoFields, query = NoFields, headers = NoFields } = options;
  const { body = NoContent, response = NoContent } = options;
  const [method, path = ''] = what.split(' ') as [Method, string];
  const hasContent = options.response !== undefined || stream !== undefined || produces.length > 0;
  const { status = hasContent ? 200 : 204, whileDraining = method === 'GET' } = options;
  return {
    ...{ method, path, tag, summary, auth, params, query, headers, body, response },
    ...{ status, stream, produces, consumes, socket, whileDraining },
    audit: typeof audit === 'string' ? { name: audit, buffered: false } : audit,
  };
}

export type RouteTable = Readonly<Record<string, Route>>;

type WithSession<P> = { readonly id: z.output<typeof SessionId> } & (string extends keyof P ? unknown : P);

/** The same route of a session: at its path below `/v1/sessions/{id}`, with a right on the session. */
type RouteOfSession<R extends Route> = Route<
  {
    params: z.ZodType<WithSession<z.output<R['params']>>, WithSession<z.input<R['params']>>>;
    query: R['query'];
    headers: R['headers'];
    body: R['body'];
    response: R['response'];
  },
  SessionAuth
>;

/** `listTools` of the user is `listToolsOfSession` of a session. */
type RoutesOfSession<T extends RouteTable> = {
  readonly [N in keyof T & string as `${N}OfSession`]: RouteOfSession<T[N]>;
};

/** A scope that is also a right becomes this right. `admin` stays a scope, beside the right to use the session. */
export function routesOfSession<T extends RouteTable>(table: T): RoutesOfSession<T>;
export function routesOfSession(table: RouteTable): RouteTable {
  return Object.fromEntries(Object.entries(table).map(([name, route]) => [`${name}OfSession`, routeOfSession(route)]));
}

function routeOfSession(route: Route): Route {
  const { path, params } = route;
  const { scope } = userAuthOf(route);
  const right = Right.safeParse(scope).data;
  if (!(params instanceof z.ZodObject)) throw new Error(`${path} has parameters that are not an object`);
  return {
    ...route,
    path: path.replace('/v1/', '/v1/sessions/{id}/'),
    params: SessionParams.extend(params.shape),
    auth: right === undefined ? session('use', { scope }) : session(right),
  };
}

function userAuthOf({ auth, path }: Route): UserAuth {
  if (auth.kind === 'user') return auth;
  throw new Error(`${path} is not a route of a user`);
}

/** Options that a caller can add to any request. */
export interface RequestOptions {
  /** A body that is not JSON. */
  readonly bytes?: Uint8Array | AsyncIterable<Uint8Array> | undefined;
  readonly accept?: string | undefined;
  /**
   * The server begins to answer at once, however long the work takes, and the caller can ask again. If no answer begins for as
   * long as a stream may be silent, the connection is broken.
   */
  readonly answersAtOnce?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Whether the caller can leave out all arguments. */
export type IsOptional<T> = undefined extends T ? true : Record<string, never> extends T ? true : false;

type RequestPart<Name extends string, T> =
  IsOptional<T> extends true ? { readonly [N in Name]?: T } : { readonly [N in Name]: T };

/** What a client sends to a route. */
export type RouteRequest<R extends Route> = RequestPart<'params', z.input<R['params']>> &
  RequestPart<'query', z.input<R['query']>> &
  RequestPart<'headers', z.input<R['headers']>> &
  RequestPart<'body', z.input<R['body']>> &
  RequestOptions;

/** What a client gets from a route. */
export type RouteResponse<R extends Route> = z.output<R['response']>;

/** A whole number in a query, in which every value is text. */
export const queryInt = () => z.coerce.number<number>().int();

const originals = new WeakMap<z.ZodType, z.ZodType>();

/** Accepts what the schema accepts, and returns the input unchanged, without defaults. */
export function validateOnly<S extends z.ZodType>(schema: S): z.ZodType<z.input<S>, z.input<S>> {
  const checked = z.custom<z.input<S>>().superRefine((value, context) => {
    const outcome = schema.safeParse(value);
    for (const { path, message } of outcome.error ? describeIssues(outcome.error) : []) {
      context.addIssue({ code: 'custom', path: [...path], message });
    }
  });
  originals.set(checked, schema);
  return checked;
}

/** The schema of its input, for the OpenAPI document. */
export function schemaBehind(schema: z.ZodType): z.ZodType {
  return originals.get(schema) ?? schema;
}
