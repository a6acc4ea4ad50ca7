/** Users, tokens, shares, quotas, the audit log and credentials of model providers on the wire. */

import { z } from 'zod';
import { providers, rights, roles, scopes } from './enums.ts';
import { boundedList } from './parse.ts';

export const Role = z.enum(roles);
export type Role = z.infer<typeof Role>;

export const Right = z.enum(rights);
export type Right = z.infer<typeof Right>;

export const Scope = z.enum(scopes);
export type Scope = z.infer<typeof Scope>;

export const UserName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._@-]{0,63}$/, 'must be 1 to 64 of a-z, 0-9 and . _ @ -, and begin with a letter or a digit');

/** A name is given again after its user is deleted, an id never is. */
export const UserId = z.string().regex(/^(local|[a-z0-9][a-z0-9._@-]{0,63}~[a-z0-9]{12})$/, 'must be the id of a user');

const limit = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

/** What is left out is not limited. */
export const Quotas = z.strictObject({
  sessions: limit.optional(),
  liveKernels: limit.optional(),
  /** Of all live kernels together, by their limits. */
  memoryMb: limit.optional(),
  executionsPerMinute: limit.max(100_000).optional(),
  storageBytes: limit.optional(),
  /** Spent on models, by the day in UTC. */
  modelUsdPerDay: z.number().min(0).max(10_000_000).optional(),
  modelTokensPerDay: limit.optional(),
});
export type Quotas = z.infer<typeof Quotas>;

const time = z.number();

export const User = z.object({
  id: UserId,
  name: UserName,
  role: Role,
  disabled: z.boolean(),
  /** In place of the server's defaults. */
  quotas: Quotas,
  createdAt: time,
  updatedAt: time,
});
export type User = z.infer<typeof User>;

export const CreateUser = z.strictObject({
  name: UserName,
  role: Role.default('member'),
  quotas: Quotas.default({}),
});
export type CreateUser = z.input<typeof CreateUser>;

export const UpdateUser = z.strictObject({
  role: Role.optional(),
  disabled: z.boolean().optional(),
  quotas: Quotas.optional(),
});
export type UpdateUser = z.input<typeof UpdateUser>;

export const TokenId = z.string().regex(/^[0-9a-z]{16}$/, 'must be the id of a token');

/** What the API shows of a token after its creation. */
export const TokenInfo = z.object({
  id: TokenId,
  name: z.string(),
  userId: UserId,
  userName: UserName,
  scopes: z.array(Scope),
  createdAt: time,
  /** Never, where it is left out. */
  expiresAt: time.optional(),
  /** At most a minute old. */
  lastUsedAt: time.optional(),
});
export type TokenInfo = z.infer<typeof TokenInfo>;

const YEAR_MS = 366 * 24 * 3600 * 1000;

export const CreateToken = z.strictObject({
  name: z.string().trim().min(1).max(100),
  /** Another user's name, for admins. */
  user: UserName.optional(),
  /** By default all that the maker and the user may both have. */
  scopes: boundedList(z.array(Scope).min(1).max(scopes.length), scopes.length).optional(),
  expiresInMs: z
    .int()
    .min(1)
    .max(10 * YEAR_MS)
    .optional(),
});
export type CreateToken = z.input<typeof CreateToken>;

/** With whom a session is shared: one user, or all users with at least this role. */
export const Share = z.union([
  z.strictObject({ userId: UserId, userName: UserName, right: Right }),
  z.strictObject({ role: Role, right: Right }),
]);
export type Share = z.infer<typeof Share>;

/** What was refused: docs/access.md says what each means. A label of `cella_refused_total`, so the list is closed. */
export const refusalKinds = [
  'token',
  'login',
  'session_token',
  'origin',
  'forbidden',
  'not_found',
  'invalid',
  'quota',
  'rate',
  'path',
  'kernel_protocol',
  'runner_protocol',
  'namespace',
  'gateway',
  'proxy',
  'permission',
] as const;
export const RefusalKind = z.enum(refusalKinds);
export type RefusalKind = z.infer<typeof RefusalKind>;

/** A refused action of a session's code, reported to the session's manager. */
export interface CodeRefusal {
  readonly kind: Extract<RefusalKind, 'kernel_protocol' | 'namespace' | 'permission' | 'proxy'>;
  readonly detail: string;
  readonly code?: string;
}

export const AuditEntry = z.object({
  /** Absent if the request was not authenticated. */
  userId: UserId.optional(),
  userName: z.string().optional(),
  /** Which token or login: `token 3f…`, `login 9a…`, `server`. Never a secret. */
  credential: z.string().optional(),
  /** `session.execute`, `user.create` … */
  action: z.string(),
  /** The session it was done to. */
  session: z.string().optional(),
  /** What else it was done to: a user, a token, a file. */
  target: z.string().optional(),
  /** The address it came from. */
  from: z.string(),
  outcome: z.enum(['ok', 'refused', 'failed']),
  /** The error code, if the request was refused or failed. */
  code: z.string().optional(),
  /** What kind of refusal it is. */
  kind: RefusalKind.optional(),
  /** What was tried, in a few words. Never a secret. */
  detail: z.string().optional(),
  /** How many more of this kind by the same user or address were refused since the entry before, without one of their own. */
  suppressed: z.int().optional(),
});
export type AuditEntry = z.infer<typeof AuditEntry>;

export const AuditRecord = AuditEntry.extend({ seq: z.int(), at: time });
export type AuditRecord = z.infer<typeof AuditRecord>;

export const ProviderName = z.enum(providers);

/** It goes into a header as it is. */
export const CredentialValue = z
  .string()
  .regex(/^[!-~]{8,16384}$/, 'must be 8 to 16384 printable ASCII characters without blanks');

/** What the API shows of a credential. */
export const CredentialInfo = z
  .object({
    provider: ProviderName,
    userId: UserId,
    userName: UserName,
    createdAt: z.number(),
    /** When its value was last set. */
    updatedAt: z.number(),
  })
  .meta({ id: 'Credential' });
export type CredentialInfo = z.infer<typeof CredentialInfo>;

export const SetCredential = z.strictObject({
  value: CredentialValue,
  /** Another user's name, for admins. */
  user: UserName.optional(),
});
export type SetCredential = z.infer<typeof SetCredential>;

/** `left` are those that no key at hand opens: they are as they were. */
export const Rotation = z.object({
  rotated: z.int(),
  left: z.array(z.object({ userId: z.string(), provider: z.string() })),
});
export type Rotation = z.infer<typeof Rotation>;
