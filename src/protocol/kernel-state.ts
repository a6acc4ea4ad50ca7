/** The state of a kernel: checkpoints and what they store, variables, history, completion and inspection. */

import { z } from 'zod';

export const CHECKPOINT_FORMAT = 1;

const lostName = z.strictObject({ name: z.string(), reason: z.string() });
export type LostName = z.infer<typeof lostName>;

/**
 * One part of a checkpoint that can be loaded without the others. Only a kernel knows what its bytes mean: the host
 * stores them, checks that they are whole, and never takes them apart.
 */
export const Segment = z.strictObject({
  /** How a kernel reads the bytes. */
  kind: z.string().min(1).max(40),
  /** The names that come back with it. */
  names: z.array(z.string()),
  /** Whether another minor version of Python can read it. */
  portable: z.boolean(),
  bytes: z.int().min(0),
  /** Of the bytes, in hexadecimal. */
  sha256: z.string().length(64),
});
export type Segment = z.infer<typeof Segment>;

export const Manifest = z.strictObject({
  format: z.literal(CHECKPOINT_FORMAT),
  id: z.string().min(1).max(64),
  /** What a person calls it; automatic saves have none. */
  name: z.string().min(1).max(200).optional(),
  /** `save`: made by itself for recovery and hibernation. `checkpoint`: asked for. */
  kind: z.enum(['save', 'checkpoint']),
  /** Milliseconds since 1970. */
  createdAt: z.int().min(0),
  /** The version that wrote it, such as 3.11.2. */
  python: z.string(),
  /** How many executions the session had had. */
  execution: z.int().min(0),
  bytes: z.int().min(0),
  saved: z.array(z.string()),
  lost: z.array(lostName),
  /** In the order in which they lie in the data, one after the other. */
  segments: z.array(Segment),
});
export type Manifest = z.infer<typeof Manifest>;

export const Lost = z.object({ name: z.string(), reason: z.string() });

/** A point to go back to: `live` in the memory of the kernel, `durable` in storage. */
export const Checkpoint = z
  .object({
    id: z.string(),
    name: z.string().optional(),
    kind: z.enum(['live', 'durable']),
    /** Made by itself, for recovery and hibernation. */
    automatic: z.boolean(),
    /** Milliseconds since 1970. */
    createdAt: z.number(),
    /** How many executions the session had had. */
    execution: z.int(),
    /** Only of durable checkpoints, like `python`, `saved` and `lost`. */
    bytes: z.int().optional(),
    python: z.string().optional(),
    saved: z.array(z.string()).readonly().optional(),
    lost: z.array(Lost).readonly().optional(),
    /** Why a live checkpoint can no longer be restored. */
    gone: z.string().optional(),
  })
  .meta({ id: 'Checkpoint' });
export type Checkpoint = z.infer<typeof Checkpoint>;

/** What a durable checkpoint restored; a live one restores everything. */
export const Restored = z.object({
  checkpoint: Checkpoint,
  restored: z.array(z.string()).readonly().optional(),
  lost: z.array(Lost).readonly().optional(),
});
export type Restored = z.infer<typeof Restored>;

/** What may replace the code from `start` to `end` (UTF-16 offsets, as in JavaScript strings). */
export const Completion = z
  .object({
    matches: z.array(z.object({ text: z.string(), type: z.string() })).readonly(),
    start: z.int(),
    end: z.int(),
  })
  .meta({ id: 'Completion' });
export type Completion = z.infer<typeof Completion>;

export const Inspection = z
  .object({
    found: z.boolean(),
    name: z.string().optional(),
    type: z.string().optional(),
    signature: z.string().optional(),
    doc: z.string().optional(),
    source: z.string().optional(),
    repr: z.string().optional(),
  })
  .meta({ id: 'Inspection' });
export type Inspection = z.infer<typeof Inspection>;

/** `indent`: what the next line of incomplete code should start with. */
export const Completeness = z
  .discriminatedUnion('status', [
    z.object({ status: z.literal('complete') }),
    z.object({ status: z.literal('incomplete'), indent: z.string() }),
    z.object({ status: z.literal('invalid'), message: z.string() }),
  ])
  .meta({ id: 'Completeness' });
export type Completeness = z.infer<typeof Completeness>;

export const Variable = z
  .object({
    name: z.string(),
    type: z.string(),
    /** Bytes: of an array's data if it tells, else of the object alone. */
    size: z.number(),
    /** `len()`, or an array's shape, as text. */
    length: z.string().optional(),
    preview: z.string(),
  })
  .meta({ id: 'Variable' });
export type Variable = z.infer<typeof Variable>;

export const HistoryEntry = z
  .object({
    execution: z.int(),
    code: z.string(),
    status: z.enum(['ok', 'error', 'timeout', 'interrupted', 'died']),
  })
  .meta({ id: 'HistoryEntry' });
export type HistoryEntry = z.infer<typeof HistoryEntry>;

/** A kernel by its agent key, whichever process holds it. */
export const KernelInfo = z
  .object({
    agentKey: z.string(),
    /** `live`: a process holds it. */
    state: z.enum(['live', 'hibernated']),
    holder: z.object({ pid: z.int(), since: z.number() }).optional(),
    /** The process that its kernel descends from. */
    pid: z.int().optional(),
    /** Of its processes; absent if this user may not look. */
    memoryBytes: z.number().optional(),
    /** Since it was last saved or ended. */
    idleMs: z.number(),
    lastSave: z.object({ id: z.string(), at: z.number() }).optional(),
    executions: z.int(),
    /** The agent key whose workspace it shares. */
    workspaceOf: z.string().optional(),
  })
  .meta({ id: 'KernelInfo' });
export type KernelInfo = z.infer<typeof KernelInfo>;
