/** Calls the routes of a server, for a session or without one, and turns its errors into those that the library throws. */

import { z } from 'zod';
import { tryParseJson } from '../lib/json-scanner.ts';
import type { Route } from '../protocol/api/route.ts';
import { ErrorBody } from '../protocol/error-body.ts';
import { CellaError, type ErrorCode, errorCodes } from '../protocol/errors.ts';
import { parseOrThrow } from '../protocol/parse.ts';
import type { Monitor, MonitoredTransport } from './monitored-transport.ts';
import { type Socket, type TransportRequest, unreachable } from './transport.ts';

export interface RouteRequest<Body> {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string | number | readonly string[] | undefined>>;
  readonly body?: Body;
  /** A body that is no JSON. */
  readonly bytes?: Uint8Array | AsyncIterable<Uint8Array>;
  readonly accept?: string;
  readonly idempotencyKey?: string;
  readonly signal?: AbortSignal | undefined;
}

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

  /** What the endpoint gives, checked. Reading is tried once more where a kept connection had ended meanwhile. */
  async call<P, Q, B, R>(endpoint: Route<P, Q, B, R>, given: RouteRequest<B> = {}): Promise<R> {
    const attempt = () => this.#answer(endpoint, given);
    if (endpoint.method !== 'get') return await attempt();
    return await attempt().catch((error) => {
      if (hasCode(error, 'SERVER_UNREACHABLE') && error.details.refused !== true && error.details.silent !== true) {
        return attempt();
      }
      throw error;
    });
  }

  /** An answer that is well, with its body still to be read. */
  async open<P, Q, B, R>(endpoint: Route<P, Q, B, R>, given: RouteRequest<B> = {}): Promise<Response> {
    const response = await this.#transport.request(this.#request(endpoint, given));
    if (response.ok) return response;
    throw await errorFromResponse(response);
  }

  socket<P, Q, B, R>(endpoint: Route<P, Q, B, R>, given: RouteRequest<B>): Socket | undefined {
    return this.#transport.socket(pathOf(endpoint.path, given));
  }

  /** For a WebSocket: `onGone` is told the error once nothing was heard for long and the server does not answer. */
  monitor(onGone: (error: CellaError) => void): Monitor {
    return this.#transport.monitor(() => onGone(this.#transport.silentError()));
  }

  close(): void {
    this.#transport.close();
  }

  async #answer<P, Q, B, R>(endpoint: Route<P, Q, B, R>, given: RouteRequest<B>): Promise<R> {
    const response = await this.open(endpoint, given);
    const text = await response.text().catch((cause) => {
      throw unreachable(this.address, cause);
    });
    return parseResponse(endpoint.result, text === '' ? undefined : tryParseJson(text), endpoint.path);
  }

  #request<P, Q, B, R>({ method, path }: Route<P, Q, B, R>, given: RouteRequest<B>): TransportRequest {
    const { body, bytes, accept = 'application/json', idempotencyKey, signal } = given;
    return {
      method: method.toUpperCase(),
      path: pathOf(path, given),
      headers: {
        accept,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(bytes === undefined ? {} : { 'content-type': 'application/octet-stream' }),
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
        ...(this.csrf === undefined ? {} : { 'x-cella-csrf': this.csrf }),
      },
      body: bytes ?? (body === undefined ? undefined : JSON.stringify(body)),
      signal,
    };
  }
}

function pathOf(path: string, { params = {}, query = {} }: Pick<RouteRequest<unknown>, 'params' | 'query'>): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) =>
    encodeURIComponent(checkedSegment(params[name])),
  );
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) search.append(name, String(one));
  }
  return search.size === 0 ? filled : `${filled}?${search}`;
}

/** A folder of its own kind would change the path. */
function checkedSegment(part = ''): string {
  if (part !== '' && part !== '.' && part !== '..') return part.toWellFormed();
  throw new CellaError('INVALID_NAME', `“${part}” is no name.`);
}

export function parseResponse<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  return parseOrThrow(schema, value, ({ message }) => {
    return new CellaError('INTERNAL', `The answer to ${what} cannot be read: ${message}.`);
  });
}

export interface SessionApiClient {
  readonly link: ApiClient;
  readonly id: string;
  /** Throws where the session was closed here. */
  readonly check: () => void;
}

/** Every name is of this session, unless the call says which. */
export async function callSession<P, Q, B, R>(
  { link, id, check }: SessionApiClient,
  endpoint: Route<P, Q, B, R>,
  given: RouteRequest<B> = {},
): Promise<R> {
  check();
  return await link.call(endpoint, { ...given, params: { id, ...given.params } });
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

/** The same, with the answer still to be read. */
export async function openSessionStream<P, Q, B, R>(
  { link, id, check }: SessionApiClient,
  endpoint: Route<P, Q, B, R>,
  given: RouteRequest<B> = {},
): Promise<Response> {
  check();
  return await link.open(endpoint, { ...given, params: { id, ...given.params } });
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
