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
import { adminOnly, anyone, anyUser, route } from './route.ts';

const accessTag = 'Access';
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
      .meta({ description: 'For a browser: to be sent as x-cella-csrf with what changes something.' }),
  })
  .meta({ id: 'Me' });

export const WhoAmI = route('get /v1/me', accessTag, anyUser, {
  summary: 'Who you are here, and what you may',
  result: Me,
});

const LoginCodeQuery = z.object({ code: z.string().min(1).max(200) });

export const ShowLogin = route('get /login', accessTag, anyone, {
  summary: 'The page of a login link, with a button that logs in; it does not use up the code',
  query: LoginCodeQuery,
  gives: ['text/html'],
});

export const Login = route('post /login', accessTag, anyone, {
  summary: 'Exchange the one-time code of a login link for a cookie',
  query: LoginCodeQuery,
  audit: 'login',
  gives: ['text/html'],
});

export const OpenLogin = route('post /v1/login', accessTag, anyUser, {
  summary: 'A cookie for a browser, in exchange for the token of this request',
  audit: 'login.open',
  result: Me,
});

export const CreateLoginCode = route('post /v1/login-codes', accessTag, anyUser, {
  summary: 'A one-time code for a login link: your own, or anybody’s for administrators',
  audit: 'login.code',
  body: z.strictObject({ user: z.string().min(1).max(128).optional() }).optional(),
  result: z.object({ code: z.string(), path: z.string(), expiresAt: z.number() }),
  status: 201,
});

export const Logout = route('post /v1/logout', accessTag, anyUser, {
  summary: 'End the login of this browser',
  audit: 'login.close',
  whileStopping: true,
});

export const EndLogins = route('delete /v1/users/{user}/logins', accessTag, anyUser, {
  summary: 'End all browser logins of a user, and its unused login links: your own, or anybody’s for administrators',
  audit: 'login.end',
  params: UserParams,
});

export const CreateUserRoute = route('post /v1/users', accessTag, adminOnly, {
  summary: 'Make a user',
  audit: 'user.create',
  body: CreateUser,
  result: User,
  status: 201,
});

export const ListUsers = route('get /v1/users', accessTag, adminOnly, {
  summary: 'All users, by name',
  query: z.strictObject({
    after: z.string().max(200).optional(),
    limit: z.coerce.number().int().min(1).max(1000).default(100),
  }),
  result: z.object({ users: z.array(User).readonly(), next: z.string().optional() }),
});

export const GetUser = route('get /v1/users/{user}', accessTag, anyUser, {
  summary: 'A user, by name or id: yourself, or anybody for administrators',
  params: UserParams,
  result: User,
});

export const UpdateUserRoute = route('patch /v1/users/{user}', accessTag, adminOnly, {
  summary: 'Change the role or quotas of a user, or disable it',
  audit: 'user.update',
  params: UserParams,
  body: UpdateUser,
  result: User,
});

export const DeleteUser = route('delete /v1/users/{user}', accessTag, adminOnly, {
  summary: 'Delete a user with its tokens, logins and sessions',
  audit: 'user.delete',
  params: UserParams,
});

export const CreateTokenRoute = route('post /v1/tokens', accessTag, anyUser, {
  summary: 'Make a token; it is shown this once',
  audit: 'token.create',
  body: CreateToken,
  result: z.object({ token: z.string(), info: TokenInfo }),
  status: 201,
});

export const ListTokens = route('get /v1/tokens', accessTag, anyUser, {
  summary: 'Your tokens, or those of the named user for administrators',
  query: z.strictObject({ user: z.string().max(128).optional() }),
  result: z.object({ tokens: z.array(TokenInfo).readonly() }),
});

export const RevokeToken = route('delete /v1/tokens/{token}', accessTag, anyUser, {
  summary: 'Revoke a token: from the next call on, nobody gets in with it',
  audit: 'token.revoke',
  params: z.object({ token: TokenId }),
});

export const ReadAudit = route('get /v1/audit', accessTag, adminOnly, {
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

const credentialsTag = 'Credentials';
const ProviderParams = z.object({ provider: ProviderName });
const UserQuery = z.strictObject({
  user: z.string().max(128).optional().meta({ description: 'Another user, for administrators.' }),
});

export const SetCredentialRoute = route('put /v1/credentials/{provider}', credentialsTag, anyUser, {
  summary: 'Keep your key of a model provider, encrypted; it is never shown again',
  audit: 'credential.set',
  params: ProviderParams,
  body: SetCredential,
  result: CredentialInfo,
});

export const ListCredentials = route('get /v1/credentials', credentialsTag, anyUser, {
  summary: 'Of which providers you have a key here; nothing of the keys',
  query: UserQuery,
  result: z.object({ credentials: z.array(CredentialInfo).readonly() }),
});

export const DeleteCredential = route('delete /v1/credentials/{provider}', credentialsTag, anyUser, {
  summary: 'Delete your key of a model provider',
  audit: 'credential.delete',
  params: ProviderParams,
  query: UserQuery,
});

export const RotateCredentials = route('post /v1/credentials/rotate', credentialsTag, adminOnly, {
  summary: 'Encrypt every credential anew, under another master key',
  audit: 'credential.rotate',
  result: Rotation,
});
