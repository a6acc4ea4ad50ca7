/** Sessions: their settings, the same for `Session.open` and the server, and the requests that create, change and list them. */

import { z } from 'zod';
import { Right, Share } from './access-models.ts';
import { executorKinds, isReservedKey, normalizeAgentKey } from './enums.ts';
import { Limits, SandboxOption } from './sandbox-policy.ts';

/**
 * `commit_always` keeps changes. `commit_on_success` and `rollback_on_failure`, two names of one behaviour, undo them if
 * the code fails. `rollback_always` undoes them. `explicit` waits for `commit()` or `rollback()`.
 */
export const TransactionPolicy = z.enum([
  'commit_always',
  'commit_on_success',
  'rollback_on_failure',
  'rollback_always',
  'explicit',
]);
export type TransactionPolicy = z.infer<typeof TransactionPolicy>;

export const milliseconds = z.int().min(0).max(2_147_483_647);
export const text = z.string().refine((value) => !value.includes('\0'), 'must not contain a null byte');
const wellFormed = text.refine((value) => value.isWellFormed(), 'must not contain a lone surrogate');

/** The name that owns a kernel: any text; an empty one means `default`. Includes the keys that only a server creates. */
export const AgentKey = text
  .max(1024)
  .refine((key) => key === '' || key.trim() !== '', 'must not be only spaces: leave it out for `default`')
  .transform((key) => normalizeAgentKey(key));

/** The agent keys that users may choose. */
export const UserAgentKey = AgentKey.refine(
  (key) => !isReservedKey(key),
  'must not begin with ~, as the keys of a server’s users do',
);

export const SessionSettings = z.strictObject({
  /** The folder that the code works in. Default: the workspace of the agent key in the data folder. */
  cwd: text.min(1).optional(),
  /** Environment variables for the code, in addition to a few that it always gets. It gets none of this process. */
  env: z.record(wellFormed.regex(/^[^=\0]+$/, 'must be a variable name'), wellFormed).default({}),
  /** Where the code runs: `auto` is `subprocess`. See docs/executors.md. */
  executor: z.enum(['auto', ...executorKinds]).default('auto'),
  /** For `container`: the image, in place of the one that `cella images build` makes. */
  image: text.min(1).max(500).optional(),
  sandbox: SandboxOption,
  limits: Limits.prefault({}),
  /** The timeout of executions that do not set their own; 0 means no limit. */
  timeoutMs: milliseconds.default(0),
  /** How long interrupted code has to stop before it is killed. */
  graceMs: milliseconds.default(2000),
  /** How long one input() may wait for its answer; 0 means no limit. */
  inputTimeoutMs: milliseconds.default(300_000),
  /** At a server: how long a permission request of a coding agent waits for a decision; 0 means no limit. */
  permissionTimeoutMs: milliseconds.default(3_600_000),
  /** How many executions can wait behind the running one. */
  queueLimit: z.int().min(0).max(100_000).default(64),
  /** How much of stdout and stderr, each, a result keeps. Streaming is not cut. */
  outputLimitBytes: z.int().min(0).max(1_073_741_824).default(1_048_576),
  /** The transaction policy of cells that do not set their own; see docs/state.md. */
  transaction: TransactionPolicy.default('commit_always'),
  /** How long after a cell the variables are saved, if nothing else runs. */
  saveAfterMs: milliseconds.default(1000),
  /** The largest durable checkpoint. */
  checkpointLimitMb: z.int().min(1).max(65_536).default(256),
  /** How long saving or loading a durable checkpoint may take. */
  checkpointTimeoutMs: z.int().min(100).max(3_600_000).default(60_000),
  /** How many live checkpoints are kept; the oldest are dropped first. */
  liveCheckpoints: z.int().min(0).max(32).default(8),
  /** How many cells can be undone. */
  undo: z.int().min(0).max(32).default(0),
  /** Installs the configured packages before the first cell. Packages that are already installed are always available. */
  syncDepsOnStart: z.boolean().default(false),
  /** False locks the packages: deps.add and deps.remove are refused, list and sync still work. */
  allowRuntimeDeps: z.boolean().default(true),
  /** The largest artifact. */
  artifactLimitMb: z.int().min(1).max(1_048_576).default(1024),
});

/** What a caller writes. */
export type SessionSettings = z.input<typeof SessionSettings>;

export const SessionId = z.string().regex(/^ses_[0-9a-z]{16}$/);

const label = z
  .string()
  .min(1)
  .max(64)
  .regex(/^[A-Za-z0-9][A-Za-z0-9._/-]*$/, 'must be letters, digits and any of . _ / -');
export const Labels = z
  .record(label, z.string().max(256))
  .refine((labels) => Object.keys(labels).length <= 64, 'at most 64 labels');
const sessionName = z.string().max(200);

const Shares = z.array(Share).max(256);

/** The most characters of the JSON, because every list of sessions contains it. */
const MOST_ENV_CHARACTERS = 128 * 1024;
const env = SessionSettings.shape.env.refine(
  (given) => JSON.stringify(given).length <= MOST_ENV_CHARACTERS,
  'at most 128 KB',
);

export const NewSession = z.strictObject({
  agentKey: UserAgentKey.prefault(''),
  name: sessionName.optional(),
  labels: Labels.optional(),
  shares: Shares.optional(),
  ...SessionSettings.shape,
  env,
});
/** What a caller writes. */
export type NewSession = z.input<typeof NewSession>;

/** Options that can be changed later. A live kernel is saved and restarted with the new options. */
export const ChangeableSettings = SessionSettings.pick({
  env: true,
  limits: true,
  timeoutMs: true,
  graceMs: true,
  inputTimeoutMs: true,
  permissionTimeoutMs: true,
  queueLimit: true,
  outputLimitBytes: true,
  transaction: true,
  saveAfterMs: true,
  checkpointLimitMb: true,
  checkpointTimeoutMs: true,
  liveCheckpoints: true,
  undo: true,
  syncDepsOnStart: true,
  allowRuntimeDeps: true,
  artifactLimitMb: true,
});

/** `name: null` removes the name. `labels` and `shares` replace the previous ones. */
export const SessionChange = z.strictObject({
  name: sessionName.nullable().optional(),
  labels: Labels.optional(),
  shares: Shares.optional(),
  ...ChangeableSettings.shape,
  env,
});
export type SessionChange = z.input<typeof SessionChange>;

export const NewFork = z.strictObject({
  agentKey: UserAgentKey,
  /** A live checkpoint to fork from, instead of the current state. */
  from: z.string().optional(),
  /** Deletes another session that has this key. */
  replace: z.boolean().optional(),
  name: sessionName.optional(),
  labels: Labels.optional(),
});
export type NewFork = z.input<typeof NewFork>;

/** `running`: code runs. `idle`: the kernel is live and waits. `hibernated`: the next call resumes the kernel. */
export const SessionStates = z.enum(['running', 'idle', 'hibernated']);

export const SessionInfo = z.object({
  id: SessionId,
  /** The id of the session's owner. */
  ownerId: z.string(),
  agentKey: z.string(),
  name: z.string().optional(),
  labels: Labels,
  shares: Shares,
  /** Includes defaults. */
  settings: SessionSettings,
  state: SessionStates,
  /** Queued executions. */
  queued: z.int().min(0),
  /** The session that it was forked from, whose workspace it shares. */
  forkOf: SessionId.optional(),
  /** A fork of another user's session. Its code reaches no namespace and no agent until the fork's owner confirms it. */
  unconfirmed: z.literal(true).optional(),
  /** Milliseconds since 1970, as all times here. */
  createdAt: z.number(),
  updatedAt: z.number(),
});
export type SessionInfo = z.infer<typeof SessionInfo>;

export const SessionQuery = z.strictObject({
  agentKey: z.string().optional(),
  ownerId: z.string().optional(),
  /** A session must have all of these labels, with these values. */
  labels: z.record(z.string(), z.string()).optional(),
  state: SessionStates.optional(),
  limit: z.int().min(1).max(1000).default(100),
  /** `next` of the page before. */
  cursor: z.string().optional(),
});
export type SessionQuery = z.input<typeof SessionQuery>;

export const SessionPage = z.object({ sessions: z.array(SessionInfo), next: z.string().optional() });
export type SessionPage = z.infer<typeof SessionPage>;

/** A user by name or id, or a role. Sessions return their shares in the same form. */
export const ShareRequest = z.union([z.strictObject({ user: z.string().min(1).max(128), right: Right }), Share]);

export type ShareRequest = z.infer<typeof ShareRequest>;
