/** Routes of users, logins, tokens, the audit log and credentials. */

import { z } from 'zod';
import {
  AuditRecord,
  CreateToken,
  CreateUser,
  CredentialInfo,
  ProviderName,
  Role,
  Rotation,
  Scope,
  SetCredential,
  TokenId,
  TokenInfo,
  UpdateUser,
  User,
} from '../access-models.ts';
import { anyone, queryInt, route, user } from './route.ts';

const UserParams = z.object({ user: z.string().min(1).max(128) });

export const Me = z
  .object({
    userId: z.string(),
    userName: z.string(),
    role: Role,
    scopes: z.array(Scope).readonly(),
    csrf: z
      .string()
      .optional()
      .meta({ description: 'For browsers: send this as x-cella-csrf with each request that changes something.' }),
  })
  .meta({ id: 'Me' });

const LoginCodeQuery = z.object({ code: z.string().min(1).max(200) });

const ProviderParams = z.object({ provider: ProviderName });
const UserQuery = z.strictObject({
  user: z.string().max(128).optional().meta({ description: 'Another user; for administrators.' }),
});

export const loginRoutes = {
  whoAmI: route('GET /v1/me', 'Access', { auth: user(), summary: 'Get your user, role and scopes', response: Me }),

  showLogin: route('GET /login', 'Access', {
    auth: anyone,
    summary: 'The page of a login link, with a button that logs in; it does not use up the code',
    query: LoginCodeQuery,
    produces: ['text/html'],
  }),

  login: route('POST /login', 'Access', {
    auth: anyone,
    summary: 'Exchange the one-time code of a login link for a cookie',
    query: LoginCodeQuery,
    audit: 'login',
    produces: ['text/html'],
  }),

  openLogin: route('POST /v1/login', 'Access', {
    auth: user(),
    summary: 'Log in a browser: a cookie in exchange for the token of this request',
    audit: 'login.open',
    response: Me,
  }),

  createLoginCode: route('POST /v1/login-codes', 'Access', {
    auth: user(),
    summary: 'Create a one-time code for a login link: for yourself, or as an administrator for any user',
    audit: 'login.code',
    body: z.strictObject({ user: z.string().min(1).max(128).optional() }).optional(),
    response: z.object({ code: z.string(), path: z.string(), expiresAt: z.number() }),
    status: 201,
  }),

  logout: route('POST /v1/logout', 'Access', {
    auth: user(),
    summary: 'Log this browser out',
    audit: 'login.close',
    whileDraining: true,
  }),

  endLogins: route('DELETE /v1/users/{user}/logins', 'Access', {
    auth: user(),
    summary: 'End all browser logins and unused login links: your own, or as an administrator those of any user',
    audit: 'login.end',
    params: UserParams,
  }),
};

export const userRoutes = {
  createUser: route('POST /v1/users', 'Access', {
    auth: user('admin'),
    summary: 'Create a user',
    audit: 'user.create',
    body: CreateUser,
    response: User,
    status: 201,
  }),

  listUsers: route('GET /v1/users', 'Access', {
    auth: user('admin'),
    summary: 'List users, sorted by name',
    query: z.strictObject({ after: z.string().max(200).optional(), limit: queryInt().min(1).max(1000).default(100) }),
    response: z.object({ users: z.array(User).readonly(), next: z.string().optional() }),
  }),

  getUser: route('GET /v1/users/{user}', 'Access', {
    auth: user(),
    summary: 'Get a user by name or id: yourself, or as an administrator any user',
    params: UserParams,
    response: User,
  }),

  updateUser: route('PATCH /v1/users/{user}', 'Access', {
    auth: user('admin'),
    summary: 'Change the role or quotas of a user, or disable it',
    audit: 'user.update',
    params: UserParams,
    body: UpdateUser,
    response: User,
  }),

  deleteUser: route('DELETE /v1/users/{user}', 'Access', {
    auth: user('admin'),
    summary: 'Delete a user with its tokens, logins and sessions',
    audit: 'user.delete',
    params: UserParams,
  }),
};

export const tokenRoutes = {
  createToken: route('POST /v1/tokens', 'Access', {
    auth: user('tokens'),
    summary: 'Create a token; it is shown only once',
    audit: 'token.create',
    body: CreateToken,
    response: z.object({ token: z.string(), info: TokenInfo }),
    status: 201,
  }),

  listTokens: route('GET /v1/tokens', 'Access', {
    auth: user('tokens'),
    summary: 'List your tokens, or as an administrator those of any user',
    query: z.strictObject({ user: z.string().max(128).optional() }),
    response: z.object({ tokens: z.array(TokenInfo).readonly() }),
  }),

  revokeToken: route('DELETE /v1/tokens/{token}', 'Access', {
    auth: user(),
    summary: 'Revoke a token; the server refuses it from the next request on',
    audit: 'token.revoke',
    params: z.object({ token: TokenId }),
  }),
};

export const auditRoutes = {
  readAudit: route('GET /v1/audit', 'Access', {
    auth: user('admin'),
    summary: 'Read the audit log',
    query: z.strictObject({
      after: queryInt().min(0).default(0),
      limit: queryInt().min(1).max(1000).default(100),
      user: z.string().max(128).optional().meta({ description: 'The id of a user.' }),
      session: z.string().max(128).optional(),
    }),
    response: z.object({
      entries: z.array(AuditRecord).readonly(),
      next: z.int().meta({
        description:
          'For `after`: the last entry that was checked. One call checks 10,000; continue while this is below `last`.',
      }),
      last: z.int().meta({ description: 'The number of the newest entry.' }),
    }),
  }),
};

export const credentialRoutes = {
  setCredential: route('PUT /v1/credentials/{provider}', 'Credentials', {
    auth: user('tokens'),
    summary: 'Store your key for a model provider, encrypted; it is never shown again',
    audit: 'credential.set',
    params: ProviderParams,
    body: SetCredential,
    response: CredentialInfo,
  }),

  listCredentials: route('GET /v1/credentials', 'Credentials', {
    auth: user('tokens'),
    summary: 'List the providers for which you have stored a key',
    query: UserQuery,
    response: z.object({ credentials: z.array(CredentialInfo).readonly() }),
  }),

  deleteCredential: route('DELETE /v1/credentials/{provider}', 'Credentials', {
    auth: user('tokens'),
    summary: 'Delete your key for a model provider',
    audit: 'credential.delete',
    params: ProviderParams,
    query: UserQuery,
  }),

  rotateCredentials: route('POST /v1/credentials/rotate', 'Credentials', {
    auth: user('admin'),
    summary: 'Encrypt all credentials again with a new master key',
    audit: 'credential.rotate',
    response: Rotation,
  }),
};
