/** Where a Redis server is and which keys in it are ours. A password in the url never leaves this object as text. */

import { CellaError } from '../../protocol/errors.ts';

export interface Address {
  readonly url: string;
  /** For messages: the url without user and password. */
  readonly where: string;
  readonly prefix: string;
}

/** None of these ends a prefix, and none means anything in a pattern. */
const PREFIX = /^[A-Za-z0-9._:-]{1,100}$/;

export function parseAddress(url: unknown, prefix: unknown): Address {
  if (typeof prefix !== 'string' || !PREFIX.test(prefix)) {
    throw invalid(
      `${JSON.stringify(prefix)} cannot be the prefix of keys: use 1 to 100 of letters, digits and . _ : -`,
    );
  }
  const where = parseUrl(url);
  return { url: String(url), where, prefix };
}

/** Gives what may be shown. The url itself is never part of an error: it may hold a password in any place. */
function parseUrl(url: unknown): string {
  const expected =
    'write it as redis://host:6379, or rediss:// for TLS, with user:password@ and /database where needed';
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed) throw invalid(`The address of the Redis server is not a url: ${expected}`);
  const { protocol, hostname, host, pathname, search, hash } = parsed;
  if (!['redis:', 'rediss:'].includes(protocol)) {
    throw invalid(`The address of the Redis server does not begin with redis:// or rediss://: ${expected}`);
  }
  if (hostname === '') throw invalid(`The address of the Redis server names no host: ${expected}`);
  if (!/^\/?\d{0,5}$/.test(pathname) || search || hash) {
    throw invalid(`The address of the Redis server ends in something that is no database number: ${expected}`);
  }
  if (!decodable(parsed.username) || !decodable(parsed.password)) {
    throw invalid(
      'The user or password in the address of the Redis server holds a % that is not followed by two digits',
    );
  }
  return `${protocol}//${host}${pathname === '/' ? '' : pathname}`;
}

function decodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false; // that is the answer
  }
}

const invalid = (message: string): CellaError => new CellaError('INVALID_OPTIONS', `${message}.`);
