/** Where the namespaces of a session are found. */

import type { Route } from '../protocol/api/route.ts';
import type { Given, Link } from './link.ts';

export interface Place {
  readonly link: Link;
  readonly id: string;
  /** Throws where the session was closed here. */
  readonly check: () => void;
}

/** Every name is of this session, unless the call says which. */
export async function callAt<P, Q, B, R>(
  { link, id, check }: Place,
  endpoint: Route<P, Q, B, R>,
  given: Given<B> = {},
): Promise<R> {
  check();
  return await link.call(endpoint, { ...given, params: { id, ...given.params } });
}

/** All pages of a list, one after the other. */
export async function everyPage<T>(
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
export async function openAt<P, Q, B, R>(
  { link, id, check }: Place,
  endpoint: Route<P, Q, B, R>,
  given: Given<B> = {},
): Promise<Response> {
  check();
  return await link.open(endpoint, { ...given, params: { id, ...given.params } });
}
