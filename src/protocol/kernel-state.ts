/**
 * The state of a kernel: checkpoints and what they store, variables, history, completion and inspection. A kernel may be
 * hostile, so its answers are checked here.
 */

import { z } from 'zod';
import { executionStatuses } from './enums.ts';
import { CellaError } from './errors.ts';
import { parseOrThrow } from './parse.ts';

/** The newest format that this version reads. Format 1 has all segments in the manifest; format 2 also supports long manifests. */
export const CHECKPOINT_FORMAT = 2;

const lostVariable = z.strictObject({ name: z.string(), reason: z.string() });
export type LostVariable = z.infer<typeof lostVariable>;

/** The longest list of names in results, events and checkpoints. The other names are counted. */
const MOST_LISTED = 100;
const MOST_LISTED_CHARACTERS = 16 * 1024;

const Lost = z.object({ name: z.string(), reason: z.string() });
const more = z.int().min(1).optional();

/** `saved`, `restored` and `lost` contain the first names; the numbers say how many others there are. */
const savedList = { saved: z.array(z.string()).readonly(), moreSaved: more };
export const restoredList = { restored: z.array(z.string()).readonly(), moreRestored: more };
export const lostList = { lost: z.array(Lost).readonly(), moreLost: more };
export type LostList = { readonly lost: readonly LostVariable[]; readonly moreLost?: number | undefined };
type SavedList = { readonly saved: readonly string[]; readonly moreSaved?: number | undefined };
type RestoredList = { readonly restored: readonly string[]; readonly moreRestored?: number | undefined };

/** `more`: how many items are not in the list. */
export function listLost(all: readonly LostVariable[], more = 0): LostList {
  const [lost, moreLost] = cutList(all, more, ({ name, reason }) => name.length + reason.length);
  return { lost, ...(moreLost > 0 ? { moreLost } : {}) };
}

export function listSaved(all: readonly string[], more = 0): SavedList {
  const [saved, moreSaved] = cutList(all, more, ({ length }) => length);
  return { saved, ...(moreSaved > 0 ? { moreSaved } : {}) };
}

export function listRestored(all: readonly string[], more = 0): RestoredList {
  const [restored, moreRestored] = cutList(all, more, ({ length }) => length);
  return { restored, ...(moreRestored > 0 ? { moreRestored } : {}) };
}

function cutList<T>(all: readonly T[], more: number, sizeOf: (one: T) => number): readonly [readonly T[], number] {
  let characters = 0;
  const end = all.findIndex((one, index) => {
    characters += sizeOf(one);
    return index === MOST_LISTED || characters > MOST_LISTED_CHARACTERS;
  });
  const listed = end < 0 ? all : all.slice(0, end);
  return [listed, more + all.length - listed.length];
}

/**
 * One part of a checkpoint that can be loaded without the others. Only a kernel knows what its bytes mean: the host
 * stores them, checks that they are complete, and never parses them.
 */
export const Segment = z.strictObject({
  /** How a kernel reads the bytes. */
  kind: z.string().min(1).max(40),
  /** The names of its variables. */
  names: z.array(z.string()),
  /** Whether another minor version of Python can read it. */
  portable: z.boolean(),
  bytes: z.int().min(0),
  /** SHA-256 of the bytes, in hexadecimal. */
  sha256: z.string().length(64),
});
export type Segment = z.infer<typeof Segment>;

/** The position of the segment list of a long checkpoint: after the data, one line of JSON per segment. */
const SegmentTable = Segment.pick({ bytes: true, sha256: true });

export const Manifest = z.strictObject({
  format: z.literal([1, CHECKPOINT_FORMAT]),
  id: z.string().min(1).max(64),
  /** The name that the user gave it. Automatic saves have none. */
  name: z.string().min(1).max(200).optional(),
  /** `save`: created automatically, for recovery and hibernation. `checkpoint`: created on request. */
  kind: z.enum(['save', 'checkpoint']),
  /** Milliseconds since 1970. */
  createdAt: z.int().min(0),
  /** The version that wrote it, such as 3.11.2. */
  python: z.string(),
  /** How many executions the session had run. */
  execution: z.int().min(0),
  /** The size of all segments. */
  bytes: z.int().min(0),
  saved: z.array(z.string()),
  moreSaved: more,
  lost: z.array(lostVariable),
  moreLost: more,
  /** In the order of their data. Empty if there is a `table`. */
  segments: z.array(Segment),
  table: SegmentTable.optional(),
});
export type Manifest = z.infer<typeof Manifest>;

/** A point to go back to: `live` in the memory of the kernel, `durable` in storage. */
export const Checkpoint = z
  .object({
    id: z.string(),
    name: z.string().optional(),
    kind: z.enum(['live', 'durable']),
    /** Created automatically, for recovery and hibernation. */
    automatic: z.boolean(),
    /** Milliseconds since 1970. */
    createdAt: z.number(),
    /** How many executions the session had run. */
    execution: z.int(),
    /** Only for durable checkpoints, like `python`, `saved` and `lost`. */
    bytes: z.int().optional(),
    python: z.string().optional(),
    ...{ ...savedList, saved: savedList.saved.optional(), ...lostList, lost: lostList.lost.optional() },
    /** Why a live checkpoint can no longer be restored. */
    gone: z.string().optional(),
  })
  .meta({ id: 'Checkpoint' });
export type Checkpoint = z.infer<typeof Checkpoint>;

/** What a durable checkpoint restored; a live one restores everything. */
export const Restored = z.object({
  checkpoint: Checkpoint,
  ...{ ...restoredList, restored: restoredList.restored.optional(), ...lostList, lost: lostList.lost.optional() },
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
    /** In bytes: the data of an array if its size is known, else the object alone. */
    size: z.number(),
    /** `len()`, or an array's shape, as text. */
    length: z.string().optional(),
    preview: z.string(),
  })
  .meta({ id: 'Variable' });
export type Variable = z.infer<typeof Variable>;

export const HistoryEntry = z
  .object({ execution: z.int(), code: z.string(), status: z.enum(executionStatuses) })
  .meta({ id: 'HistoryEntry' });
export type HistoryEntry = z.infer<typeof HistoryEntry>;

/** A kernel by its agent key, no matter which process holds it. */
export const KernelInfo = z
  .object({
    agentKey: z.string(),
    /** `live`: a process holds it. */
    state: z.enum(['live', 'hibernated']),
    owner: z.object({ pid: z.int(), since: z.number() }).optional(),
    /** The process that its kernel descends from. */
    pid: z.int().optional(),
    /** The memory of its processes; absent if this user may not read it. */
    memoryBytes: z.number().optional(),
    /** The time since the last save or the end of the kernel. */
    idleMs: z.number(),
    lastSave: z.object({ id: z.string(), at: z.number() }).optional(),
    executions: z.int(),
    /** The agent key whose workspace it shares. */
    workspaceOf: z.string().optional(),
  })
  .meta({ id: 'KernelInfo' });
export type KernelInfo = z.infer<typeof KernelInfo>;

const CompletionAnswer = z.object({
  matches: z.array(z.object({ text: z.string(), type: z.string() })),
  prefix: z.string(),
});

export function parseAnswer<T>(schema: z.ZodType<T>, answer: unknown): T {
  const toError = () => new CellaError('KERNEL_PROTOCOL', 'The kernel sent an answer of the wrong shape.');
  return parseOrThrow(schema, answer, toError);
}

export function parseCompletion(answer: unknown, cursor: number): Completion {
  const { matches, prefix } = parseAnswer(CompletionAnswer, answer);
  return { matches, start: Math.max(0, cursor - prefix.length), end: cursor };
}
