/** Handlers for logins, users, tokens, credentials and the audit log. */

import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type {
  auditRoutes,
  credentialRoutes,
  loginRoutes,
  tokenRoutes,
  userRoutes,
} from '../../../protocol/api/access-routes.ts';
import { CellaError } from '../../../protocol/errors.ts';
import type { Principal } from '../../access/authorization.ts';
import type { BrowserLogin } from '../../access/logins.ts';
import { sessionsWithForks } from '../../sessions/session-listing.ts';
import { COOKIE, countFailure } from '../authenticate.ts';
import { loginPage, showLoginPage, wantsPage } from '../pages.ts';
import type { Handlers } from '../router.ts';
import { clientAddress, isTls, type RequestContext, type ServerContext } from '../server-context.ts';

/** A user may create credentials at twice the rate allowed for wrong ones. */
const MAKING_COST = 0.5;

export function auditHandlers({ access }: ServerContext): Handlers<typeof auditRoutes> {
  return {
    readAudit: async ({ query: { after, limit, user, session }, principal }) => {
      const wanted = { userId: user, session };
      return await access.audit.page(principal, { after, limit, ...wanted });
    },
  };
}

export function loginHandlers({ access }: ServerContext): Handlers<typeof loginRoutes> {
  return {
    whoAmI: async ({ principal, context }) => {
      const cookie = principal.authMethod.kind === 'login' ? getCookie(context, COOKIE) : undefined;
      return meOf(principal, cookie === undefined ? undefined : access.logins.csrfOf(cookie));
    },

    // GET must not use up the code: link previews in chat and mail programs request the page, too.
    showLogin: async () => new Response(showLoginPage.body, { headers: showLoginPage.headers }),

    login: async ({ query, context }) => {
      access.rates.admit(`from ${clientAddress(context)}`);
      const login = await access.logins.redeem(query.code).catch((error) => {
        if (error instanceof CellaError && error.code === 'UNAUTHENTICATED') countFailure(context, access);
        throw error;
      });
      context.set('principal', login.principal);
      keepCookie(context, login);
      return wantsPage(context) ? context.body(loginPage.body, 200, loginPage.headers) : context.redirect('/docs', 303);
    },

    openLogin: async ({ principal, context }) => {
      admitMaking(access, principal);
      const login = await access.logins.open(principal);
      keepCookie(context, login);
      return context.json(meOf(principal, login.csrf), 200);
    },

    createLoginCode: async ({ body, principal, auditTarget }) => {
      admitMaking(access, principal);
      if (body?.user !== undefined) auditTarget({ target: body.user });
      const { code, expiresAt } = await access.logins.createCode(principal, body?.user);
      return { code, path: `/login?code=${encodeURIComponent(code)}`, expiresAt };
    },

    logout: async ({ context, principal }) => {
      const cookie = getCookie(context, COOKIE);
      const ended = cookie !== undefined && (await access.logins.logout(cookie));
      // Ending logins is limited by opening them. Without a login to end, the audit entry needs its own limit.
      if (!ended) admitMaking(access, principal);
      deleteCookie(context, COOKIE, { path: '/' });
      return context.body(null, 204);
    },

    endLogins: async ({ params, principal, auditTarget }) => {
      auditTarget({ target: params.user });
      admitMaking(access, principal);
      await access.logins.logoutUser(principal, params.user);
    },
  };
}

export function userHandlers({
  access,
  models,
  profiles,
  sessions,
  forwarder,
}: ServerContext): Handlers<typeof userRoutes> {
  return {
    createUser: async ({ body, principal, auditTarget }) => {
      auditTarget({ target: body.name });
      return await access.users.create(principal, body);
    },

    listUsers: async ({ query: { after, limit }, principal }) => {
      const { items, next } = await access.users.list(principal, { limit, after });
      return { users: items, next };
    },

    getUser: async ({ params, principal }) => access.users.get(principal, params.user),

    updateUser: async ({ params, body, principal, auditTarget }) => {
      auditTarget({ target: params.user });
      const { role, disabled, quotas } = body;
      return await access.users.update(principal, params.user, { role, disabled, quotas });
    },

    deleteUser: async ({ params, principal, auditTarget, context }) => {
      auditTarget({ target: params.user });
      const { id } = await access.users.get(principal, params.user);
      // The user cannot log in while its sessions are deleted.
      await access.users.update(principal, id, { disabled: true });
      for (const session of (await sessionsWithForks(sessions, id)).toReversed()) {
        if (!(await forwarder?.delete(context, session))) await sessions.delete(session.id);
      }
      await sessions.deleteUserData(id);
      await models.forgetUser(id);
      await profiles.deleteAll(id);
      await access.users.delete(principal, id);
    },
  };
}

export function tokenHandlers({ access }: ServerContext): Handlers<typeof tokenRoutes> {
  return {
    createToken: async ({ body: { name, user, scopes, expiresInMs }, principal, auditTarget }) => {
      admitMaking(access, principal);
      const made = await access.tokens.create(principal, { name, user, scopes, expiresInMs });
      auditTarget({ target: made.info.id });
      return made;
    },

    listTokens: async ({ query: { user }, principal }) => ({
      tokens: await access.tokens.list(principal, user === undefined ? {} : { user }),
    }),

    revokeToken: async ({ params, principal, auditTarget }) => {
      auditTarget({ target: params.token });
      await access.tokens.revoke(principal, params.token);
    },
  };
}

/** Limits what users can add to the audit log. Administrators are exempt: they create credentials for all users. */
function admitMaking({ credentialRates }: ServerContext['access'], { userId, scopes }: Principal): void {
  if (!scopes.includes('admin')) credentialRates.admit(`made by ${userId}`, MAKING_COST);
}

function meOf({ userId, userName, role, scopes }: Principal, csrf?: string) {
  return { userId, userName, role, scopes, csrf };
}

/** Scripts cannot read the cookie, and other sites cannot make the browser send it. */
function keepCookie(context: RequestContext, { cookie, expiresAt }: BrowserLogin): void {
  const attributes = { path: '/', httpOnly: true, sameSite: 'Strict', secure: isTls(context.env) } as const;
  setCookie(context, COOKIE, cookie, { ...attributes, expires: new Date(expiresAt) });
}

export function credentialHandlers({ models: { credentials } }: ServerContext): Handlers<typeof credentialRoutes> {
  return {
    setCredential: async ({ params: { provider }, body: { value, user }, principal, auditTarget }) => {
      auditTarget({ target: targetOf(provider, user) });
      return await credentials.set(principal, provider, value, user);
    },

    listCredentials: async ({ query: { user }, principal }) => ({
      credentials: await credentials.list(principal, user),
    }),

    deleteCredential: async ({ params: { provider }, query: { user }, principal, auditTarget }) => {
      auditTarget({ target: targetOf(provider, user) });
      await credentials.delete(principal, provider, user);
    },

    rotateCredentials: async ({ principal }) => credentials.rotate(principal),
  };
}

const targetOf = (provider: string, user: string | undefined): string =>
  user === undefined ? provider : `${provider} of ${user}`;
