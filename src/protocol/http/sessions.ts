/** Sessions of the server as they cross the wire. */

import { z } from 'zod';
import { Right, Share } from '../access-models.ts';
import { OwnKey, SessionSettings } from '../session-settings.ts';

export const SessionId = z.string().regex(/^ses_[0-9a-z]{16}$/);

const label = z
  .string()
  .min(1)
  .max(64)
  .regex(/^[A-Za-z0-9][A-Za-z0-9._/-]*$/, 'must be letters, digits and any of . _ / -');
export const Labels = z
  .record(label, z.string().max(256))
  .refine((labels) => Object.keys(labels).length <= 64, 'may be 64 at most');
const name = z.string().max(200);

const Shares = z.array(Share).max(256);

export const NewSession = z.strictObject({
  agentKey: OwnKey.prefault(''),
  name: name.optional(),
  labels: Labels.optional(),
  shares: Shares.optional(),
  ...SessionSettings.shape,
});
/** What a caller writes. */
export type NewSession = z.input<typeof NewSession>;

/** Those that can be changed later; a live kernel is saved and begins again with them. */
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

/** `name: null` takes the name away; `labels` and `shares` take the place of those before. */
export const SessionChange = z.strictObject({
  name: name.nullable().optional(),
  labels: Labels.optional(),
  shares: Shares.optional(),
  ...ChangeableSettings.shape,
});
export type SessionChange = z.input<typeof SessionChange>;

export const NewFork = z.strictObject({
  agentKey: OwnKey,
  /** A live checkpoint to begin with, instead of now. */
  from: z.string().optional(),
  /** Deletes the session that has this key. */
  replace: z.boolean().optional(),
  name: name.optional(),
  labels: Labels.optional(),
});
export type NewFork = z.input<typeof NewFork>;

/** `running`: code runs. `idle`: a kernel waits. `hibernated`: the next call brings the kernel back. */
export const SessionStates = z.enum(['running', 'idle', 'hibernated']);

export const SessionInfo = z.object({
  id: SessionId,
  /** The id of the user whose it is. */
  ownerId: z.string(),
  agentKey: z.string(),
  name: z.string().optional(),
  labels: Labels,
  shares: Shares,
  /** With their defaults. */
  settings: SessionSettings,
  state: SessionStates,
  /** Executions that wait for their turn. */
  queued: z.int().min(0),
  /** The session that it was forked from, whose workspace it shares. */
  forkOf: SessionId.optional(),
  /** A fork of somebody else's session, whose code reaches no namespace and no agent until its owner confirms it. */
  unconfirmed: z.literal(true).optional(),
  /** Milliseconds since 1970, as all times here. */
  createdAt: z.number(),
  updatedAt: z.number(),
});
export type SessionInfo = z.infer<typeof SessionInfo>;

export const SessionQuery = z.strictObject({
  agentKey: z.string().optional(),
  ownerId: z.string().optional(),
  /** Every one of these must be there, with this value. */
  labels: z.record(z.string(), z.string()).optional(),
  state: SessionStates.optional(),
  limit: z.int().min(1).max(1000).default(100),
  /** `next` of the page before. */
  cursor: z.string().optional(),
});
export type SessionQuery = z.input<typeof SessionQuery>;

export const SessionPage = z.object({ sessions: z.array(SessionInfo), next: z.string().optional() });
export type SessionPage = z.infer<typeof SessionPage>;

/** A user by name or id, or a role; as a session tells its shares, too. */
export const ShareWish = z.union([z.strictObject({ user: z.string().min(1).max(128), right: Right }), Share]);

export type ShareWish = z.infer<typeof ShareWish>;
