/** Who sends a request: by a bearer token, by the cookie of a browser that has logged in, or through the local socket. */

import { getCookie } from 'hono/cookie';
import { CellaError } from '../../protocol/errors.ts';
import type { AccessControl } from '../access/access-control.ts';
import { networkOf } from '../access/audit-log.ts';
import type { Principal } from '../access/authorization.ts';
import { parseToken } from '../access/secrets.ts';
import { clientAddress, type RequestContext } from './request-context.ts';

export const COOKIE = 'cella';
const CSRF_HEADER = 'x-cella-csrf';

const READING = new Set(['GET', 'HEAD']);

export async function authenticate(c: RequestContext, access: AccessControl): Promise<Principal> {
  let token: string | undefined;
  const cookie = getCookie(c, COOKIE);
  try {
    token = bearerOf(c);
    if (token !== undefined) return await access.authenticate(token);
    if (cookie !== undefined) return await byCookie(c, access, cookie);
    if (c.env.listener === 'local') return access.localAdmin();
    throw new CellaError('UNAUTHENTICATED', 'This needs a token or a login.');
  } catch (error) {
    if (error instanceof CellaError && error.code === 'UNAUTHENTICATED') countFailure(c, access, token);
    throw error;
  }
}

/**
 * Guessing is slow for whoever guesses: by address, and by the token that is guessed at. A credential that is good is let in
 * before this, so that nobody locks others out who share an address or whose token is known by its id.
 */
export function countFailure(c: RequestContext, access: AccessControl, token?: string): void {
  const from = networkOf(clientAddress(c));
  const shown = c.req.header('authorization') ?? c.req.header('cookie') ?? c.req.query('code');
  // Without a credential nobody has guessed anything.
  if (shown === undefined) {
    access.rates.admit(`from ${from}`);
    return;
  }
  const id = token === undefined ? undefined : parseToken(token)?.id;
  if (id !== undefined) access.credentialRates.admit(`token ${id}`);
  access.credentialRates.admit(`from ${from}`);
}

/** A page of another site can make a browser send its cookie, and can neither read nor set a header. */
async function byCookie(c: RequestContext, access: AccessControl, cookie: string): Promise<Principal> {
  const site = c.req.header('sec-fetch-site');
  const { upgrade } = c.env;
  // Who opens a page from a bookmark or another site may see it; nothing else works from there.
  if (site === 'cross-site' && (upgrade || !READING.has(c.req.method))) throw crossSite();
  if (upgrade && c.req.header('origin') === undefined) throw crossSite();
  const principal = await access.logins.authenticate(cookie);
  if (!READING.has(c.req.method)) access.logins.checkCsrf(cookie, c.req.header(CSRF_HEADER));
  return principal;
}

/** Undefined where there is none; a header that holds no token is one that is wrong. */
function bearerOf(c: RequestContext): string | undefined {
  const header = c.req.header('authorization');
  if (header === undefined) return undefined;
  const [, token] = /^Bearer +(\S+) *$/i.exec(header) ?? [];
  if (token === undefined) throw new CellaError('UNAUTHENTICATED', 'The Authorization header holds no bearer token.');
  return token;
}

function crossSite(): CellaError {
  return new CellaError('FORBIDDEN', 'The request comes from a page of another site.');
}
