/** The options of a session that can be written down: the same for `Session.open` and for a session of the server. */

import { z } from 'zod';
import { executorKinds, isReserved } from './enums.ts';
import { Limits, SandboxOption } from './policy.ts';
import { TransactionPolicy } from './transaction.ts';

export const milliseconds = z.int().min(0).max(2_147_483_647);
export const text = z.string().refine((value) => !value.includes('\0'), 'must not contain a null byte');
const wellFormed = text.refine((value) => value.isWellFormed(), 'must not contain a lone surrogate');

/** Who owns a kernel: any text. The empty one means `default`. Also those that only a server gives. */
export const AgentKey = text
  .max(1024)
  .refine((key) => key === '' || key.trim() !== '', 'must not be blank: leave it out for `default`')
  .transform((key) => (key === '' ? 'default' : key));

/** What anybody may choose. */
export const OwnKey = AgentKey.refine(
  (key) => !isReserved(key),
  'must not begin with ~, as the keys of a server’s users do',
);

export const SessionSettings = z.strictObject({
  /** The folder the code works in. By default the agent's own workspace in the data folder. */
  cwd: text.min(1).optional(),
  /** Variables for the code, beside the few it gets anyway. Nothing else of this process is passed on. */
  env: z.record(wellFormed.regex(/^[^=\0]+$/, 'must be a variable name'), wellFormed).default({}),
  /** Where the code runs: `auto` is `subprocess`. See docs/executors.md. */
  executor: z.enum(['auto', ...executorKinds]).default('auto'),
  /** For `container`: the image, in place of the one that `cella image build` makes. */
  image: text.min(1).max(500).optional(),
  sandbox: SandboxOption,
  limits: Limits.prefault({}),
  /** For every execution that does not say otherwise; 0 means no limit. */
  timeoutMs: milliseconds.default(0),
  /** How long interrupted code has to stop before it is killed. */
  graceMs: milliseconds.default(2000),
  /** How long one input() may wait for its answer; 0 means no limit. */
  inputTimeoutMs: milliseconds.default(300_000),
  /** At a server: how long what a coding agent asks for waits for a person's leave; 0 means no limit. */
  permissionTimeoutMs: milliseconds.default(3_600_000),
  /** How many executions may wait behind the one that runs. */
  queueLimit: z.int().min(0).max(100_000).default(64),
  /** How much of stdout and stderr, each, a result keeps. Streaming is not cut. */
  outputLimitBytes: z.int().min(0).max(1_073_741_824).default(1_048_576),
  /** What a cell that does not say otherwise does with its changes; see docs/state.md. */
  transaction: TransactionPolicy.default('commit_always'),
  /** How long after a cell names are saved, if nothing else runs. */
  saveAfterMs: milliseconds.default(1000),
  /** The largest durable checkpoint. */
  checkpointLimitMb: z.int().min(1).max(65_536).default(256),
  /** How long saving or loading one may take. */
  checkpointTimeoutMs: z.int().min(100).max(3_600_000).default(60_000),
  /** How many live checkpoints are kept; the oldest go first. */
  liveCheckpoints: z.int().min(0).max(32).default(8),
  /** How many cells can be undone. */
  undo: z.int().min(0).max(32).default(0),
  /** Installs the configured packages before the first cell. Those that are installed already are there in any case. */
  syncDepsOnStart: z.boolean().default(false),
  /** False locks the packages: deps.add and deps.remove are refused, list and sync still work. */
  allowRuntimeDeps: z.boolean().default(true),
  /** The largest artifact. */
  artifactLimitMb: z.int().min(1).max(1_048_576).default(1024),
});

/** What a caller writes. */
export type SessionSettings = z.input<typeof SessionSettings>;
