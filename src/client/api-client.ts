/** Calls the routes of a server, for a session or without one, and turns its errors into those that the library throws. */

import { z } from 'zod';
import { tryParseJson } from '../lib/json-scanner.ts';
import type {
  IsOptional,
  RequestOptions,
  Route,
  RouteRequest,
  RouteResponse,
  SessionAuth,
} from '../protocol/api/route.ts';
import { type RouteName, type Routes, routes } from '../protocol/api/routes.ts';
import { ErrorBody } from '../protocol/error-body.ts';
import { CellaError, type ErrorCode, errorCodes } from '../protocol/errors.ts';
import { parseOrThrow } from '../protocol/parse.ts';
import type { Monitor, MonitoredTransport } from './monitored-transport.ts';
import { type Socket, type TransportRequest, unreachable } from './transport.ts';

/** A request without the types of its route. */
interface AnyRequest extends RequestOptions {
  readonly params?: object | undefined;
  readonly query?: object | undefined;
  readonly headers?: object | undefined;
  readonly body?: unknown;
}

/** May be left out if the route needs nothing. */
type Args<T> = IsOptional<T> extends true ? [request?: T] : [request: T];

export class ApiClient {
  readonly #transport: MonitoredTransport;
  /** Of a browser that has logged in. */
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

  /** The response of a route, parsed. A read is tried once more if its connection had ended meanwhile. */
  call<N extends RouteName>(name: N, ...request: Args<RouteRequest<Routes[N]>>): Promise<RouteResponse<Routes[N]>>;
  call(name: RouteName, request?: AnyRequest): Promise<unknown> {
    return this.send(routes[name], request);
  }

  /** A successful response, with its body still to be read. */
  open<N extends RouteName>(name: N, ...request: Args<RouteRequest<Routes[N]>>): Promise<Response>;
  open(name: RouteName, request?: AnyRequest): Promise<Response> {
    return this.sendForResponse(routes[name], request);
  }

  /** Undefined if a WebSocket cannot be opened from here. */
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

  /** For a WebSocket: `onGone` is told the error once nothing was heard for long and the server does not answer. */
  monitor(onGone: (error: CellaError) => void): Monitor {
    return this.#transport.monitor(() => onGone(this.#transport.silentError()));
  }

  close(): void {
    this.#transport.close();
  }

  async #answer(route: Route, request: AnyRequest): Promise<unknown> {
    const response = await this.sendForResponse(route, request);
    const text = await response.text().catch((cause) => {
      throw unreachable(this.address, cause);
    });
    return parseResponse(route.response, text === '' ? undefined : tryParseJson(text), route.path);
  }

  #request({ method, path }: Route, request: AnyRequest): TransportRequest {
    const { body, bytes, accept = 'application/json', headers = {}, signal } = request;
    const given = Object.entries(headers).filter(([, value]) => value !== undefined);
    return {
      method,
      path: pathOf(path, request),
      headers: {
        accept,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(bytes === undefined ? {} : { 'content-type': 'application/octet-stream' }),
        ...(this.csrf === undefined ? {} : { 'x-cella-csrf': this.csrf }),
        ...Object.fromEntries(given.map(([name, value]) => [name.toLowerCase(), String(value)])),
      },
      body: bytes ?? (body === undefined ? undefined : JSON.stringify(body)),
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

/** A folder of its own kind would change the path. */
function checkedSegment(part: string): string {
  if (part !== '' && part !== '.' && part !== '..') return part.toWellFormed();
  throw new CellaError('INVALID_NAME', `“${part}” is no name.`);
}

export function parseResponse<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  return parseOrThrow(schema, value, ({ message }) => {
    return new CellaError('INTERNAL', `The answer to ${what} cannot be read: ${message}.`);
  });
}

type SessionRouteName = { [N in RouteName]: Routes[N]['auth'] extends SessionAuth ? N : never }[RouteName];

/** Without the id of the session. */
type SessionRouteRequest<R extends Route> = Omit<RouteRequest<R>, 'params'> &
  (IsOptional<Omit<z.input<R['params']>, 'id'>> extends true
    ? unknown
    : { readonly params: Omit<z.input<R['params']>, 'id'> });

/** Calls the routes of one session. */
export class SessionApiClient {
  readonly api: ApiClient;
  readonly id: string;
  readonly #check: () => void;

  /** `check` throws if the session was closed here. */
  constructor(api: ApiClient, id: string, check: () => void = () => {}) {
    this.api = api;
    this.id = id;
    this.#check = check;
  }

  call<N extends SessionRouteName>(
    name: N,
    ...request: Args<SessionRouteRequest<Routes[N]>>
  ): Promise<RouteResponse<Routes[N]>>;
  async call(name: SessionRouteName, request?: AnyRequest): Promise<unknown> {
    this.#check();
    return await this.api.send(routes[name], this.#ofSession(request));
  }

  open<N extends SessionRouteName>(name: N, ...request: Args<SessionRouteRequest<Routes[N]>>): Promise<Response>;
  async open(name: SessionRouteName, request?: AnyRequest): Promise<Response> {
    this.#check();
    return await this.api.sendForResponse(routes[name], this.#ofSession(request));
  }

  /** The number of the last event that there is. */
  async position(): Promise<number> {
    return (await this.call('readEvents', { query: { after: Number.MAX_SAFE_INTEGER, limit: 1 } })).last;
  }

  #ofSession(request: AnyRequest = {}): AnyRequest {
    return { ...request, params: { id: this.id, ...request.params } };
  }
}

/** All pages of a list, one after the other. */
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

const Code = z.custom<ErrorCode>((code) => typeof code === 'string' && Object.hasOwn(errorCodes, code));
type ReceivedError = {
  readonly code: string;
  readonly message: string;
  readonly details?: Record<string, unknown> | undefined;
  readonly advice?: string | undefined;
};

/** A server that is newer may have codes that are not known here. */
export function errorFromBody({ code, message, details = {}, advice }: ReceivedError): CellaError {
  const known = Code.safeParse(code);
  // That of the code is put in the caller's own words.
  const own = known.success && advice !== undefined && advice !== errorCodes[known.data].advice ? { advice } : {};
  return known.success
    ? new CellaError(known.data, message, { details, ...own })
    : new CellaError('INTERNAL', `${message} (${code})`, { details });
}

async function errorFromResponse(response: Response): Promise<CellaError> {
  const text = await response.text().catch(() => ''); // the connection broke; the status is what is known
  const failure = ErrorBody.safeParse(tryParseJson(text));
  if (failure.success) return errorFromBody(failure.data.error);
  return new CellaError('INTERNAL', `The server answered with status ${response.status} and no reason.`);
}

export function hasCode(error: unknown, ...codes: readonly ErrorCode[]): error is CellaError {
  return error instanceof CellaError && codes.includes(error.code);
}
