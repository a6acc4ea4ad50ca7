/** The routes of users, tokens, logins and the audit log. */

import { z } from 'zod';
import {
  AuditRecord,
  CreateToken,
  CreateUser,
  Role,
  Scope,
  TokenId,
  TokenInfo,
  UpdateUser,
  User,
} from '../access-models.ts';
import { adminOnly, anyone, anyUser, endpoint } from './endpoint.ts';

const accessTag = 'Access';
const OfUser = z.object({ user: z.string().min(1).max(128) });

export const Me = z
  .object({
    userId: z.string(),
    userName: z.string(),
    role: Role,
    scopes: z.array(Scope).readonly(),
    csrf: z
      .string()
      .optional()
      .meta({ description: 'For a browser: to be sent as x-cella-csrf with what changes something.' }),
  })
  .meta({ id: 'Me' });

export const WhoAmI = endpoint('get /v1/me', accessTag, anyUser, {
  summary: 'Who you are here, and what you may',
  result: Me,
});

const code = z.object({ code: z.string().min(1).max(200) });

export const ShowLogin = endpoint('get /login', accessTag, anyone, {
  summary: 'The page of a login link, with a button that logs in; it does not use up the code',
  query: code,
  gives: ['text/html'],
});

export const Login = endpoint('post /login', accessTag, anyone, {
  summary: 'Exchange the one-time code of a login link for a cookie',
  query: code,
  audit: 'login',
  gives: ['text/html'],
});

export const OpenLogin = endpoint('post /v1/login', accessTag, anyUser, {
  summary: 'A cookie for a browser, in exchange for the token of this request',
  audit: 'login.open',
  result: Me,
});

export const CreateLoginCode = endpoint('post /v1/login-codes', accessTag, anyUser, {
  summary: 'A one-time code for a login link: your own, or anybody’s for administrators',
  audit: 'login.code',
  body: z.strictObject({ user: z.string().min(1).max(128).optional() }).optional(),
  result: z.object({ code: z.string(), path: z.string(), expiresAt: z.number() }),
  status: 201,
});

export const Logout = endpoint('post /v1/logout', accessTag, anyUser, {
  summary: 'End the login of this browser',
  audit: 'login.close',
  whileStopping: true,
});

export const EndLogins = endpoint('delete /v1/users/{user}/logins', accessTag, anyUser, {
  summary: 'End all browser logins of a user, and its unused login links: your own, or anybody’s for administrators',
  audit: 'login.end',
  params: OfUser,
});

export const CreateUserRoute = endpoint('post /v1/users', accessTag, adminOnly, {
  summary: 'Make a user',
  audit: 'user.create',
  body: CreateUser,
  result: User,
  status: 201,
});

export const ListUsers = endpoint('get /v1/users', accessTag, adminOnly, {
  summary: 'All users, by name',
  query: z.strictObject({
    after: z.string().max(200).optional(),
    limit: z.coerce.number().int().min(1).max(1000).default(100),
  }),
  result: z.object({ users: z.array(User).readonly(), next: z.string().optional() }),
});

export const GetUser = endpoint('get /v1/users/{user}', accessTag, anyUser, {
  summary: 'A user, by name or id: yourself, or anybody for administrators',
  params: OfUser,
  result: User,
});

export const UpdateUserRoute = endpoint('patch /v1/users/{user}', accessTag, adminOnly, {
  summary: 'Change the role or quotas of a user, or disable it',
  audit: 'user.update',
  params: OfUser,
  body: UpdateUser,
  result: User,
});

export const DeleteUser = endpoint('delete /v1/users/{user}', accessTag, adminOnly, {
  summary: 'Delete a user with its tokens, logins and sessions',
  audit: 'user.delete',
  params: OfUser,
});

export const CreateTokenRoute = endpoint('post /v1/tokens', accessTag, anyUser, {
  summary: 'Make a token; it is shown this once',
  audit: 'token.create',
  body: CreateToken,
  result: z.object({ token: z.string(), info: TokenInfo }),
  status: 201,
});

export const ListTokens = endpoint('get /v1/tokens', accessTag, anyUser, {
  summary: 'Your tokens, or those of the named user for administrators',
  query: z.strictObject({ user: z.string().max(128).optional() }),
  result: z.object({ tokens: z.array(TokenInfo).readonly() }),
});

export const RevokeToken = endpoint('delete /v1/tokens/{token}', accessTag, anyUser, {
  summary: 'Revoke a token: from the next call on, nobody gets in with it',
  audit: 'token.revoke',
  params: z.object({ token: TokenId }),
});

export const ReadAudit = endpoint('get /v1/audit', accessTag, adminOnly, {
  summary: 'Who did what to which session, when and from where',
  query: z.strictObject({
    after: z.coerce.number().int().min(0).default(0),
    limit: z.coerce.number().int().min(1).max(1000).default(100),
    user: z.string().max(128).optional().meta({ description: 'The id of a user.' }),
    session: z.string().max(128).optional(),
  }),
  result: z.object({
    entries: z.array(AuditRecord).readonly(),
    next: z.int().meta({
      description:
        'For `after`: the last entry looked at. One call looks through 10,000; go on while it is below `last`.',
    }),
    last: z.int().meta({ description: 'The number of the last entry that there is.' }),
  }),
});
