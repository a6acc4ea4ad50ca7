/** What a request brings, checked against its endpoint, and what a handler gives as an answer. */

import type { Route } from '../../protocol/api/route.ts';
import { CellaError } from '../../protocol/errors.ts';
import { jsonText } from '../json-pieces.ts';
import type { ByteReservation } from '../request-limits.ts';
import { readJson } from './body.ts';
import type { ExchangeContext } from './exchange.ts';
import { invalid } from './failure.ts';
import { textResponse } from './text-response.ts';

export async function partsOf<P, Q, B>(
  { params, query, body, takes }: Route<P, Q, B>,
  c: ExchangeContext,
  { limitBytes, room }: { readonly limitBytes: number; readonly room: () => ByteReservation },
) {
  using hold = takes === undefined && mayHaveBody(c) ? room() : undefined;
  const given = hold && (await readJson(c.req.raw, limitBytes, hold));
  return {
    params: fitting(params, c.req.param()),
    query: fitting(query, queryOf(c)),
    body: fitting(body, withFewNames(given)),
  };
}

export async function respond(result: unknown, status: number): Promise<Response> {
  if (result instanceof Response) return result;
  if (result === undefined) return new Response(null, { status: status === 200 ? 204 : status });
  return textResponse(await jsonText(result), { status, headers: { 'content-type': 'application/json' } });
}

/** Of a body, and of each object that is one of its fields. Schemas take microseconds for each name. */
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

function fitting<T>(schema: Route<T>['params'], value: unknown): T {
  const outcome = schema.safeParse(value);
  if (outcome.success) return outcome.data;
  throw invalid(outcome.error);
}

/** A name that stands there several times is a list. */
function queryOf(c: ExchangeContext): Record<string, string | string[]> {
  const entries = Object.entries(c.req.queries());
  return Object.fromEntries(entries.map(([name, values]) => [name, values.length > 1 ? values : (values[0] ?? '')]));
}

function mayHaveBody(c: ExchangeContext): boolean {
  return c.req.method !== 'GET' && c.req.method !== 'HEAD';
}
