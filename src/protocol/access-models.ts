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

/** After a user is deleted, another user can get the name, but never the id. */
export const UserId = z.string().regex(/^(local|[a-z0-9][a-z0-9._@-]{0,63}~[a-z0-9]{12})$/, 'must be the id of a user');

const limit = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

/** There is no limit for a field that is left out. */
export const Quotas = z.strictObject({
  sessions: limit.optional(),
  liveKernels: limit.optional(),
  /** The sum of the memory limits of all live kernels. */
  memoryMb: limit.optional(),
  executionsPerMinute: limit.max(100_000).optional(),
  storageBytes: limit.optional(),
  /** USD spent on models per day (UTC). */
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
  /** Replaces the server's defaults. */
  quotas: Quotas,
  createdAt: time,
  updatedAt: time,
});
export type User = z.infer<typeof User>;

export const CreateUser = z.strictObject({ name: UserName, role: Role.default('member'), quotas: Quotas.default({}) });
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
  /** If undefined, the token never expires. */
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
  /** Default: every scope that both the creator and the user may have. */
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

/** Kinds of refusals, described in docs/access.md. They are labels of `cella_refused_total`, so the list is closed. */
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
  /** The session that the action was about. */
  session: z.string().optional(),
  /** Another object of the action: a user, a token, a file. */
  target: z.string().optional(),
  /** The address it came from. */
  from: z.string(),
  outcome: z.enum(['ok', 'refused', 'failed']),
  /** The error code, if the request was refused or failed. */
  code: z.string().optional(),
  /** The kind of refusal. */
  kind: RefusalKind.optional(),
  /** A short description of the attempt. Contains no secret. */
  detail: z.string().optional(),
  /** How many more refusals of this kind, by the same user or address, were not logged since the previous entry. */
  suppressed: z.int().optional(),
});
export type AuditEntry = z.infer<typeof AuditEntry>;

export const AuditRecord = AuditEntry.extend({ seq: z.int(), at: time });
export type AuditRecord = z.infer<typeof AuditRecord>;

export const ProviderName = z.enum(providers);

/** It is copied into a header unchanged. */
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

/** `left`: the credentials that no available key can decrypt. They are unchanged. */
export const Rotation = z.object({
  rotated: z.int(),
  left: z.array(z.object({ userId: z.string(), provider: z.string() })),
});
export type Rotation = z.infer<typeof Rotation>;
