/** Calls the endpoints of a server: the same descriptions that it is made from say what to send and what comes back. */

import type { z } from 'zod';
import { tryParseJson } from '../lib/json-scanner.ts';
import type { Route } from '../protocol/api/route.ts';
import { CellaError } from '../protocol/errors.ts';
import { errorOf, isCode } from './failure.ts';
import type { Listening, ListeningTransport } from './silence.ts';
import { type Socket, type TransportRequest, unreachable } from './transport.ts';

export interface Given<Body> {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string | number | readonly string[] | undefined>>;
  readonly body?: Body;
  /** A body that is no JSON. */
  readonly bytes?: Uint8Array | AsyncIterable<Uint8Array>;
  readonly accept?: string;
  readonly idempotencyKey?: string;
  readonly signal?: AbortSignal | undefined;
}

export class Link {
  readonly #transport: ListeningTransport;
  /** Of a browser that has logged in. */
  csrf: string | undefined;

  constructor(transport: ListeningTransport) {
    this.#transport = transport;
  }

  get where(): string {
    return this.#transport.where;
  }

  get wide(): boolean {
    return this.#transport.wide;
  }

  /** What the endpoint gives, checked. Reading is tried once more where a kept connection had ended meanwhile. */
  async call<P, Q, B, R>(endpoint: Route<P, Q, B, R>, given: Given<B> = {}): Promise<R> {
    const attempt = () => this.#answer(endpoint, given);
    if (endpoint.method !== 'get') return await attempt();
    return await attempt().catch((error) => {
      if (isCode(error, 'DAEMON_UNREACHABLE') && error.details.refused !== true && error.details.silent !== true) {
        return attempt();
      }
      throw error;
    });
  }

  /** An answer that is well, with its body still to be read. */
  async open<P, Q, B, R>(endpoint: Route<P, Q, B, R>, given: Given<B> = {}): Promise<Response> {
    const response = await this.#transport.request(this.#request(endpoint, given));
    if (response.ok) return response;
    throw await errorOf(response);
  }

  socket<P, Q, B, R>(endpoint: Route<P, Q, B, R>, given: Given<B>): Socket | undefined {
    return this.#transport.socket(pathOf(endpoint.path, given));
  }

  /** For a WebSocket: `onGone` is told the error once nothing was heard for long and the server does not answer. */
  listen(onGone: (error: CellaError) => void): Listening {
    return this.#transport.listen(() => onGone(this.#transport.silent()));
  }

  close(): void {
    this.#transport.close();
  }

  async #answer<P, Q, B, R>(endpoint: Route<P, Q, B, R>, given: Given<B>): Promise<R> {
    const response = await this.open(endpoint, given);
    const text = await response.text().catch((cause) => {
      throw unreachable(this.where, cause);
    });
    return checked(endpoint.result, text === '' ? undefined : tryParseJson(text), endpoint.path);
  }

  #request<P, Q, B, R>({ method, path }: Route<P, Q, B, R>, given: Given<B>): TransportRequest {
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

function pathOf(path: string, { params = {}, query = {} }: Pick<Given<unknown>, 'params' | 'query'>): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => encodeURIComponent(wellFormed(params[name])));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) search.append(name, String(one));
  }
  return search.size === 0 ? filled : `${filled}?${search}`;
}

/** A folder of its own kind would change the path. */
function wellFormed(part = ''): string {
  if (part !== '' && part !== '.' && part !== '..') return part.toWellFormed();
  throw new CellaError('INVALID_NAME', `“${part}” is no name.`);
}

export function checked<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const outcome = schema.safeParse(value);
  if (outcome.success) return outcome.data;
  throw new CellaError('INTERNAL', `The answer to ${what} cannot be read: ${outcome.error.message}.`);
}
