/** The token that a request shows, in any of the places where agents put their key. */

import type { IncomingMessage } from 'node:http';
import { CellaError } from '../../protocol/errors.ts';

/** UNAUTHENTICATED where there is none, or where two places show different ones: nobody is to guess which is meant. */
export function presentedToken({ rawHeaders, url = '' }: Pick<IncomingMessage, 'rawHeaders' | 'url'>): string {
  const shown = new Set([...inHeaders(rawHeaders), ...inQuery(url)]);
  const [token] = shown;
  if (token !== undefined && shown.size === 1) return token;
  const message = shown.size === 0 ? 'There is no session token.' : 'There are several session tokens that differ.';
  throw new CellaError('UNAUTHENTICATED', message, {
    details: { reason: shown.size === 0 ? 'missing' : 'several' },
    advice: 'Give the session token in the place of the key, and nowhere else.',
  });
}

/** The raw ones, because a header that comes twice looks like one elsewhere. */
function* inHeaders(raw: readonly string[]): Generator<string> {
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const [name, value] = [raw[at]?.toLowerCase(), raw[at + 1] ?? ''];
    if (name === 'x-api-key' || name === 'x-goog-api-key') yield value;
    if (name === 'authorization') yield value.replace(/^bearer /i, '');
  }
}

function inQuery(url: string): string[] {
  const at = url.indexOf('?');
  return at === -1 ? [] : new URLSearchParams(url.slice(at + 1)).getAll('key');
}
