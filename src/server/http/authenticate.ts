/** Who sends a request: by bearer token, by the cookie of a login, or over the local socket. Failures slow down guessing. */

import { getCookie } from 'hono/cookie';
import { CellaError } from '../../protocol/errors.ts';
import type { AccessControl } from '../access/access-control.ts';
import type { Principal } from '../access/authorization.ts';
import { networkOf } from '../access/refusal-limiter.ts';
import { parseToken } from '../access/secrets.ts';
import { clientAddress, type RequestContext } from './server-context.ts';

export const COOKIE = 'cella';
const CSRF_HEADER = 'x-cella-csrf';

/** Methods that change nothing and have no body. */
export const READING_METHODS = new Set(['GET', 'HEAD']);

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
 * Slows down guessing, per address and per guessed token. Valid credentials are accepted before this check, so an attacker
 * cannot lock out others who share an address, or whose token id is known.
 */
export function countFailure(c: RequestContext, access: AccessControl, token?: string): void {
  const from = networkOf(clientAddress(c));
  const shown = c.req.header('authorization') ?? c.req.header('cookie') ?? c.req.query('code');
  // A request without a credential is not a guess.
  if (shown === undefined) {
    access.rates.admit(`from ${from}`);
    return;
  }
  const id = token === undefined ? undefined : parseToken(token)?.id;
  if (id !== undefined) access.credentialRates.admit(`token ${id}`);
  access.credentialRates.admit(`from ${from}`);
}

/** Another site's page can make a browser send the cookie, but can neither read nor set a header. */
async function byCookie(c: RequestContext, access: AccessControl, cookie: string): Promise<Principal> {
  const site = c.req.header('sec-fetch-site');
  const { upgrade } = c.env;
  // Following a link from another site may show a page. Nothing else is allowed cross-site.
  if (site === 'cross-site' && (upgrade || !READING_METHODS.has(c.req.method))) throw crossSite();
  if (upgrade && c.req.header('origin') === undefined) throw crossSite();
  const principal = await access.logins.authenticate(cookie);
  if (!READING_METHODS.has(c.req.method)) access.logins.checkCsrf(cookie, c.req.header(CSRF_HEADER));
  return principal;
}

/** Undefined if there is no header. A header without a token counts as a wrong token. */
function bearerOf(c: RequestContext): string | undefined {
  const header = c.req.header('authorization');
  if (header === undefined) return undefined;
  const [, token] = /^Bearer +(\S+) *$/i.exec(header) ?? [];
  if (token === undefined)
    throw new CellaError('UNAUTHENTICATED', 'The Authorization header contains no bearer token.');
  return token;
}

function crossSite(): CellaError {
  return new CellaError('FORBIDDEN', 'The request comes from a page of another site.');
}
