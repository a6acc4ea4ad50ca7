/** Calls the routes of a server and of its sessions, and turns error responses into errors of the library. */

import type { z } from 'zod';
import { tryParseJson } from '../lib/json-scanner.ts';
import { omitUndefined } from '../lib/values.ts';
import type { userNamespaceRoutes } from '../protocol/api/namespace-routes.ts';
import type {
  IsOptional,
  RequestOptions,
  Route,
  RouteRequest,
  RouteResponse,
  SessionAuth,
} from '../protocol/api/route.ts';
import { type RouteName, type Routes, routes } from '../protocol/api/routes.ts';
import { type ErrorCode, errorCodes, isErrorCode } from '../protocol/error-codes.ts';
import { CellaError } from '../protocol/errors.ts';
import { ErrorBody, parseOrThrow } from '../protocol/parse.ts';
import {
  type Monitor,
  type MonitoredTransport,
  type Socket,
  serverUnreachable,
  type TransportRequest,
} from './transport.ts';

/** A request without the types of its route. */
interface AnyRequest extends RequestOptions {
  readonly params?: object | undefined;
  readonly query?: object | undefined;
  readonly headers?: object | undefined;
  readonly body?: unknown;
}

/** The request is optional if the route requires no fields. */
type Args<T> = IsOptional<T> extends true ? [request?: T] : [request: T];

export class ApiClient {
  readonly #transport: MonitoredTransport;
  /** The CSRF token of a logged-in browser. */
  csrf: string | undefined;

  constructor(transport: MonitoredTransport) {
    this.#transport = transport;
  }

  get address(): string {
    return this.#transport.address;
  }

  get allowsManyConnections(): boolean {
    return this.#transport.allowsManyConnections;
  }

  /** Returns the parsed response. Retries a read once if its connection ended. */
  call<N extends RouteName>(name: N, ...request: Args<RouteRequest<Routes[N]>>): Promise<RouteResponse<Routes[N]>>;
  call(name: RouteName, request?: AnyRequest): Promise<unknown> {
    return this.send(routes[name], request);
  }

  /** Returns a successful response with its body unread. */
  open<N extends RouteName>(name: N, ...request: Args<RouteRequest<Routes[N]>>): Promise<Response>;
  open(name: RouteName, request?: AnyRequest): Promise<Response> {
    return this.sendForResponse(routes[name], request);
  }

  /** Undefined if this client cannot open an authenticated WebSocket. */
  socket<N extends RouteName>(name: N, request: RouteRequest<Routes[N]>): Socket | undefined;
  socket(name: RouteName, request: AnyRequest): Socket | undefined {
    return this.#transport.socket(pathOf(routes[name].path, request));
  }

  async send(route: Route, request: AnyRequest = {}): Promise<unknown> {
    const attempt = () => this.#answer(route, request);
    if (route.method !== 'GET') return await attempt();
    return await attempt().catch((error) => {
      if (hasCode(error, 'SERVER_UNREACHABLE') && error.details.refused !== true && error.details.silent !== true) {
        return attempt();
      }
      throw error;
    });
  }

  async sendForResponse(route: Route, request: AnyRequest = {}): Promise<Response> {
    const response = await this.#transport.request(this.#request(route, request));
    if (response.ok) return response;
    throw await errorFromResponse(response);
  }

  /** Monitors a WebSocket. Calls `onGone` with the error if the server is silent for too long. */
  monitor(onGone: (error: CellaError) => void): Monitor {
    return this.#transport.monitorSocket(onGone);
  }

  close(): void {
    this.#transport.close();
  }

  async #answer(route: Route, request: AnyRequest): Promise<unknown> {
    const response = await this.sendForResponse(route, request);
    const text = await response.text().catch((cause) => {
      throw serverUnreachable(this.address, cause);
    });
    return parseResponse(route.response, text === '' ? undefined : tryParseJson(text), route.path);
  }

  #request({ method, path }: Route, request: AnyRequest): TransportRequest {
    const { body, bytes, accept = 'application/json', headers = {}, answersAtOnce, signal } = request;
    const ofBody = body === undefined ? undefined : 'application/json';
    const contentType = bytes === undefined ? ofBody : 'application/octet-stream';
    const all = { accept, 'content-type': contentType, 'x-cella-csrf': this.csrf, ...headers };
    const given = Object.entries(omitUndefined(all)).map(([name, value]) => [name.toLowerCase(), String(value)]);
    return {
      method,
      path: pathOf(path, request),
      headers: Object.fromEntries(given),
      body: bytes ?? (body === undefined ? undefined : JSON.stringify(body)),
      answersAtOnce,
      signal,
    };
  }
}

function pathOf(path: string, { params = {}, query = {} }: AnyRequest): string {
  const segments = new Map<string, unknown>(Object.entries(params));
  const filled = path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) =>
    encodeURIComponent(checkedSegment(String(segments.get(name) ?? ''))),
  );
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) search.append(name, String(one));
  }
  return search.size === 0 ? filled : `${filled}?${search}`;
}

/** A `.` or `..` segment would change the path. */
function checkedSegment(part: string): string {
  if (part !== '' && part !== '.' && part !== '..') return part.toWellFormed();
  throw new CellaError('INVALID_NAME', `${JSON.stringify(part)} cannot be used as a name.`);
}

export function parseResponse<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  return parseOrThrow(schema, value, ({ message }) => {
    return new CellaError('INTERNAL', `The answer to ${what} cannot be read: ${message}.`);
  });
}

type NamespaceRouteName = keyof typeof userNamespaceRoutes;

/** Calls the routes of tools, skills, artifacts and packages, either of the user or of a session. */
export interface NamespaceClient {
  readonly address: string;
  call<N extends NamespaceRouteName>(
    name: N,
    ...request: Args<RouteRequest<Routes[N]>>
  ): Promise<RouteResponse<Routes[N]>>;
  open<N extends NamespaceRouteName>(name: N, ...request: Args<RouteRequest<Routes[N]>>): Promise<Response>;
}

type SessionRouteName = { [N in RouteName]: Routes[N]['auth'] extends SessionAuth ? N : never }[RouteName];

/** The request of a session route, without the session id. */
type SessionRouteRequest<R extends Route> = Omit<RouteRequest<R>, 'params'> &
  (IsOptional<Omit<z.input<R['params']>, 'id'>> extends true
    ? unknown
    : { readonly params: Omit<z.input<R['params']>, 'id'> });

/** Calls the routes of one session. */
export class SessionApiClient {
  readonly api: ApiClient;
  readonly id: string;
  readonly #check: () => void;

  /** `check` throws if this client closed the session. */
  constructor(api: ApiClient, id: string, check: () => void = () => {}) {
    this.api = api;
    this.id = id;
    this.#check = check;
  }

  call<N extends SessionRouteName>(
    name: N,
    ...request: Args<SessionRouteRequest<Routes[N]>>
  ): Promise<RouteResponse<Routes[N]>>;
  call(name: SessionRouteName, request?: AnyRequest): Promise<unknown> {
    return this.send(routes[name], request);
  }

  open<N extends SessionRouteName>(name: N, ...request: Args<SessionRouteRequest<Routes[N]>>): Promise<Response>;
  open(name: SessionRouteName, request?: AnyRequest): Promise<Response> {
    return this.sendForResponse(routes[name], request);
  }

  async send(route: Route, request?: AnyRequest): Promise<unknown> {
    this.#check();
    return await this.api.send(route, this.#ofSession(request));
  }

  async sendForResponse(route: Route, request?: AnyRequest): Promise<Response> {
    this.#check();
    return await this.api.sendForResponse(route, this.#ofSession(request));
  }

  /** The session's tools, skills, artifacts and packages. */
  get namespaces(): NamespaceClient {
    return new SessionNamespaceClient(this);
  }

  /** The sequence number of the latest event. */
  async position(): Promise<number> {
    return (await this.call('readEvents', { query: { after: Number.MAX_SAFE_INTEGER, limit: 1 } })).last;
  }

  #ofSession(request: AnyRequest = {}): AnyRequest {
    return { ...request, params: { id: this.id, ...request.params } };
  }
}

class SessionNamespaceClient implements NamespaceClient {
  readonly #session: SessionApiClient;

  constructor(session: SessionApiClient) {
    this.#session = session;
  }

  get address(): string {
    return this.#session.api.address;
  }

  call<N extends NamespaceRouteName>(
    name: N,
    ...request: Args<RouteRequest<Routes[N]>>
  ): Promise<RouteResponse<Routes[N]>>;
  async call(name: NamespaceRouteName, request?: AnyRequest): Promise<unknown> {
    return await this.#session.send(routes[`${name}OfSession`], request);
  }

  open<N extends NamespaceRouteName>(name: N, ...request: Args<RouteRequest<Routes[N]>>): Promise<Response>;
  async open(name: NamespaceRouteName, request?: AnyRequest): Promise<Response> {
    return await this.#session.sendForResponse(routes[`${name}OfSession`], request);
  }
}

/** Fetches all pages of a list, one after the other. */
export async function allPages<T>(
  page: (after: string | undefined) => Promise<{ readonly items: readonly T[]; readonly next?: string | undefined }>,
): Promise<T[]> {
  const all: T[] = [];
  for (let after: string | undefined; ; ) {
    const { items, next } = await page(after);
    for (const item of items) all.push(item);
    if (next === undefined || next === after) return all;
    after = next;
  }
}

type ReceivedError = {
  readonly code: string;
  readonly message: string;
  readonly details?: Record<string, unknown> | undefined;
  readonly advice?: string | undefined;
};

/** A newer server may send codes that this client does not know. */
export function errorFromBody({ code, message, details = {}, advice }: ReceivedError): CellaError {
  if (!isErrorCode(code)) return new CellaError('INTERNAL', `${message} (${code})`, { details });
  // The advice of a known code is phrased for this client, so keep only advice that differs from the table.
  const own = advice !== undefined && advice !== errorCodes[code].advice ? { advice } : {};
  return new CellaError(code, message, { details, ...own });
}

async function errorFromResponse(response: Response): Promise<CellaError> {
  const text = await response.text().catch(() => ''); // the connection broke, so only the status is known
  const failure = ErrorBody.safeParse(tryParseJson(text));
  if (failure.success) return errorFromBody(failure.data.error);
  return new CellaError('INTERNAL', `The server answered with status ${response.status} and no reason.`);
}

export function hasCode(error: unknown, ...codes: readonly ErrorCode[]): error is CellaError {
  return error instanceof CellaError && codes.includes(error.code);
}
