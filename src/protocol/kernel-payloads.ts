/**
 * The payloads of frames between the host and kernels, pid 1 of a sandbox and the template, each with its schema. What the host
 * receives has size limits. What the host sends is JSON, and Python trusts it.
 */

import { z } from 'zod';
import { isCheapToParse } from '../lib/json-scanner.ts';
import { EnvironmentSpec, FolderId } from './environment-spec.ts';
import { FrameError, FrameType, KernelLimit } from './kernel-frames.ts';
import { decodeCounted, decodeValue } from './kernel-marshal.ts';
import { firstProblem } from './parse.ts';
import { PyObject, type PyValue } from './py-values.ts';
import { TerminalSize } from './workspace-models.ts';

const MB = 1024 * 1024;
/** Calls that carry a piece of a file. */
const FILE_CALLS: ReadonlySet<string> = new Set(['artifacts.write']);
/** The largest header of a part, as JSON. One header can contain all names, with each character as an escape. */
const LARGEST_HEADER = 4 * MB;
/** The most parsing effort of a header: twice that of one with all names. */
const MOST_HEADER_EFFORT = 4 * KernelLimit.mostVariables;

/** The largest payload of each frame that a kernel may send. */
export const fromKernel: ReadonlyMap<number, number> = new Map([
  [FrameType.attached, 4096],
  [FrameType.failed, 64 * 1024],
  [FrameType.hello, 4096],
  [FrameType.result, 24 * MB],
  [FrameType.display, 9 * MB],
  [FrameType.answer, KernelLimit.largestAnswerBytes],
  [FrameType.call, KernelLimit.largestFileCallBytes],
  [FrameType.cancel, 0],
  [FrameType.snapshotTaken, 64 * 1024],
  [FrameType.part, 13 * MB],
  [FrameType.saved, 4 * MB],
  [FrameType.loaded, 16 * MB],
]);

/** The same, for the connection of pid 1 of a sandbox. */
export const fromSupervisor: ReadonlyMap<number, number> = new Map([
  [FrameType.opened, 4096],
  [FrameType.failed, 64 * 1024],
  [FrameType.died, 4096],
  [FrameType.snapshotLost, 4096],
  [FrameType.measured, 64 * 1024],
]);

const markers = z.tuple([z.int().min(0), z.int().min(0)]);
const value = z.custom<PyValue>((item) => item !== undefined);
const record = z.custom<Record<string, PyValue>>(
  (item) => typeof item === 'object' && item !== null && !Array.isArray(item) && !(item instanceof PyObject),
);
const bundle = record
  .refine(
    (item) => Object.keys(item).length <= KernelLimit.mostMimeTypes,
    `has more than ${KernelLimit.mostMimeTypes} MIME types`,
  )
  .refine(
    (item) => Object.keys(item).every((type) => type.length <= KernelLimit.longestName),
    'has a MIME type that is too long',
  );

const name = z.string().max(KernelLimit.longestName);
const ErrorPayload = z.strictObject({
  name,
  message: z.string().max(KernelLimit.longestMessage),
  traceback: z.string().max(KernelLimit.longestTraceback),
  exitCode: z.int().optional(),
});

/** Every tag begins with a byte that never occurs in UTF-8. */
const tag = z.instanceof(Uint8Array).refine((bytes) => bytes.length === KernelLimit.tagBytes && bytes[0] === 0xff);
const HelloPayload = z.strictObject({ python: z.string(), implementation: z.string(), tag });
const ResultPayload = z.strictObject({
  status: z.enum(['ok', 'error']),
  value: value.optional(),
  repr: z.string().max(KernelLimit.longestRepr).optional(),
  reprCut: z.int().min(0).optional(),
  data: bundle.optional(),
  /** How many MIME types were left out of `data`. */
  dataCut: z.int().min(0).optional(),
  error: ErrorPayload.optional(),
  /** sys.exit() without a failure. */
  exitCode: z.literal(0).optional(),
  markers,
});
const DisplayPayload = z.strictObject({ data: bundle, markers, dataCut: z.int().min(0).optional() });
const InputCall = z.strictObject({
  ...{ execution: z.int(), prompt: z.string().max(KernelLimit.longestPrompt), password: z.boolean() },
  markers,
});
const CallPayload = z.tuple([z.string().max(64), record]);
const AnswerPayload = z.union([z.strictObject({ value }), z.strictObject({ error: ErrorPayload })]);
const outOfMemory = z.boolean();
const DiedPayload = z.union([
  z.strictObject({ code: z.int(), outOfMemory }),
  z.strictObject({ signal: z.int(), outOfMemory }),
]);
const SnapshotLostPayload = z.strictObject({ outOfMemory });
const sizes = z.record(z.string().regex(/^\d+$/), z.number());
const MeasuredPayload = z.strictObject({
  kernels: sizes,
  snapshots: sizes,
  /** The numbers of kernels that are stopped or traced. */
  stopped: z.array(z.int()),
});
export type MeasuredPayload = z.infer<typeof MeasuredPayload>;
const SnapshotTakenPayload = z.strictObject({ unsafe: z.string().optional() });
const names = z.array(name).max(KernelLimit.mostVariables);
const lostNames = z.array(z.strictObject({ name, reason: z.string().max(1000) })).max(KernelLimit.mostLost);
const moreLost = z.int().min(0).default(0);
/** Of one checkpoint. */
const savedNames = names.refine(
  (all) => all.reduce((total, { length }) => total + length, 0) <= KernelLimit.mostNameBytes,
  'has names that are too long in total',
);
const SavedPayload = z.strictObject({
  python: z.string().max(100),
  saved: savedNames,
  lost: lostNames,
  /** How many lost variables are not listed. */
  moreLost,
  /** Set if nothing could be saved at all. */
  failed: z.string().max(1000).optional(),
});
const LoadedPayload = z.strictObject({ restored: names, lost: lostNames, moreLost });
/** Comes before each piece of a segment, in both directions. The pieces of a segment come one after the other. */
const PartHeader = z.strictObject({ kind: z.string().min(1).max(40), names, portable: z.boolean(), last: z.boolean() });
/** Sent to a kernel after the last piece: the version of Python that wrote the pieces. */
const LoadEnd = z.strictObject({ end: z.literal(true), python: z.string() });
const FailedPayload = z.strictObject({ layer: z.string(), message: z.string() });
const OpenedPayload = z.strictObject({ pid: z.int() });
const AttachedPayload = z.strictObject({ out: z.string(), err: z.string() });

export type HelloPayload = z.infer<typeof HelloPayload>;
export type ResultPayload = z.infer<typeof ResultPayload>;
type DisplayPayload = z.infer<typeof DisplayPayload>;
export type InputCall = z.infer<typeof InputCall>;
export type SavedPayload = z.infer<typeof SavedPayload>;
export type LoadedPayload = z.infer<typeof LoadedPayload>;
export type PartHeader = z.infer<typeof PartHeader>;
type LoadEnd = z.infer<typeof LoadEnd>;

/** Kernels answer with values, the trusted processes with JSON. Both throw a FrameError for anything else. */
const asValue =
  <T>(schema: z.ZodType<T>) =>
  (payload: Buffer): T =>
    check(schema, decodeValue(payload));
const asJson =
  <T>(schema: z.ZodType<T>) =>
  (payload: Buffer): T =>
    check(schema, parseJson(payload.toString()));

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new FrameError('a frame that is not JSON');
  }
}

/** The result of a cell without output or error. Most results are like this, and parsing them without the schema is faster. */
function isPlainResult(data: PyValue): data is PyValue & ResultPayload {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return false;
  const { status, markers: counts, repr, value: _any, ...rest } = data as Record<string, PyValue | undefined>;
  if (status !== 'ok' || !Array.isArray(counts) || counts.length !== 2 || Object.keys(rest).length > 0) return false;
  return (
    counts[0] === 0 &&
    counts[1] === 0 &&
    (repr === undefined || (typeof repr === 'string' && repr.length <= KernelLimit.longestRepr))
  );
}

function check<T>(schema: z.ZodType<T>, data: unknown): T {
  const parsed = schema.safeParse(data);
  if (parsed.success) return parsed.data;
  // The schema's message contains keys, which the kernel may have chosen.
  throw new FrameError(`a frame of the wrong shape: ${firstProblem(parsed.error)}`.slice(0, 300));
}

export const parseHello = asValue(HelloPayload);
export const parseResult = (payload: Buffer): ResultPayload => {
  const data = decodeValue(payload);
  return isPlainResult(data) ? data : check(ResultPayload, data);
};
/** The value, and its number of items in total. */
export const parseDisplay = (payload: Buffer): DisplayPayload & { readonly items: number } => {
  const { value: data, items } = decodeCounted(payload);
  return { ...check(DisplayPayload, data), items };
};
export interface ParsedCall {
  readonly method: string;
  readonly params: Record<string, PyValue>;
  /** The number of items in the call in total. */
  readonly items: number;
}

export const parseCall = (payload: Buffer): ParsedCall => {
  const { value: data, items } = decodeCounted(payload);
  const [method, params] = check(CallPayload, data);
  if (payload.length > KernelLimit.largestCallBytes && !FILE_CALLS.has(method)) {
    throw new FrameError(`a call of ${payload.length} bytes; the limit is ${KernelLimit.largestCallBytes}`);
  }
  return { method, params, items };
};
export const parseInputCall = (params: PyValue): InputCall => check(InputCall, params);
export const parseAnswerPayload = asValue(AnswerPayload);
export const parseSnapshotTaken = asValue(SnapshotTakenPayload);
export const parseSaved = asValue(SavedPayload);
export const parseLoaded = asValue(LoadedPayload);

/** `header length u32, header as JSON, bytes`. */
export function parsePart(payload: Buffer): { header: PartHeader; bytes: Buffer } {
  const length = payload.length >= 4 ? payload.readUInt32LE(0) : payload.length;
  if (4 + length > payload.length) throw new FrameError('a part that is shorter than its header');
  if (length > LARGEST_HEADER) throw new FrameError(`a header of ${length} bytes; the limit is ${LARGEST_HEADER}`);
  if (!isCheapToParse(payload.subarray(4, 4 + length), MOST_HEADER_EFFORT)) {
    throw new FrameError('a header of more than the names of all variables');
  }
  const header = parseJson(payload.toString('utf8', 4, 4 + length));
  const bytes = payload.subarray(4 + length);
  // Copy the bytes, so that keeping them does not keep a long header in memory.
  return { header: check(PartHeader, header), bytes: length > bytes.length ? Buffer.from(bytes) : bytes };
}

export function encodePart(header: PartHeader | LoadEnd, bytes: Uint8Array): Buffer {
  const head = Buffer.from(JSON.stringify(header));
  const payload = Buffer.allocUnsafe(4 + head.length + bytes.length);
  payload.writeUInt32LE(head.length, 0);
  payload.set(head, 4);
  payload.set(bytes, 4 + head.length);
  return payload;
}

export const parseDied = asJson(DiedPayload);
export const parseSnapshotLost = asJson(SnapshotLostPayload);
export const parseMeasured = asJson(MeasuredPayload);
export const parseFailed = asJson(FailedPayload);
export const parseOpened = asJson(OpenedPayload);
export const parseAttached = asJson(AttachedPayload);

const variables = z.record(z.string(), z.string()).readonly();

/** The host's proxy, for a network with a list of hosts: a port on loopback, and the socket inside that it leads to. */
const ProxyPort = z.strictObject({ port: z.int(), socket: z.string() });
export type ProxyPort = z.infer<typeof ProxyPort>;

const { uid, gid, home, cwd, limits } = EnvironmentSpec.shape;

/** Make a sandbox. */
const OpenSandbox = z.strictObject({
  id: z.string(),
  policy: EnvironmentSpec.extend({ network: z.enum(['none', 'host']), proxy: ProxyPort.optional() }),
});
/** The engine has made the container. It gets no paths of the host. */
const OpenContainer = z.strictObject({
  policy: z.strictObject({
    ...{ uid, gid, home, cwd, limits },
    /** Folders that must still be the ones that the session was created with. */
    folders: z.array(z.strictObject({ path: z.string(), id: FolderId })).readonly(),
    proxy: ProxyPort.optional(),
  }),
});

/** A program to run beside the kernels. */
export const ProgramSpec = z.strictObject({
  argv: z.array(z.string()).readonly(),
  /** Variables in addition to those of every process in the environment. */
  env: variables,
  /** The folder of packages that it can import, as a path inside. */
  packages: z.string().optional(),
  /** The folder that it starts in, as a path inside; without it, the one that kernels start in. */
  cwd: z.string().optional(),
  /** `open`: the host writes its input. Without it, the input is empty. */
  stdin: z.literal('open').optional(),
  /** Runs it on a terminal of this size; an empty `argv` runs the shell. */
  terminal: TerminalSize.optional(),
});
export type ProgramSpec = Readonly<z.infer<typeof ProgramSpec>>;

const Attach = z.strictObject({
  /** The number that the kernel or program will have. */
  kernel: z.int(),
  /** The snapshot that becomes the kernel; null for a new, empty kernel. */
  snapshot: z.int().nullable(),
  /** The snapshot stays, and forks the kernel. */
  keep: z.boolean(),
  /** No caller waits for this kernel yet. */
  spare: z.boolean(),
  command: ProgramSpec.optional(),
});
export type Attach = z.infer<typeof Attach>;

/** By frame type; OPEN and ATTACH of a container differ from those of a sandbox. */
const hostPayloads = {
  openSandbox: OpenSandbox,
  openContainer: OpenContainer,
  attachInSandbox: Attach.extend({ id: z.string(), sandbox: z.string() }),
  /** `out` and `err` are names of FIFOs; `token` is hexadecimal. */
  attachInContainer: Attach.extend({ out: z.string(), err: z.string(), token: z.string() }),
  interrupt: z.strictObject({ execution: z.int() }),
  /** `gently`: SIGTERM to a program and what came from it. */
  kill: z.strictObject({ gently: z.boolean() }),
  resize: TerminalSize,
  start: z.strictObject({
    /** Variables in addition to those of every kernel. */
    env: variables,
    /** The folder of packages that it can import, as a path inside. */
    packages: z.string().optional(),
    /** Seeds what is random anew. */
    reseed: z.boolean(),
  }),
  request: z.strictObject({ method: z.string(), params: z.record(z.string(), z.unknown()) }),
  save: z.strictObject({ limitBytes: z.int(), seconds: z.number() }),
} as const;

export type HostPayload<Kind extends keyof typeof hostPayloads> = Readonly<z.infer<(typeof hostPayloads)[Kind]>>;

export function encodeHostPayload<Kind extends keyof typeof hostPayloads>(
  _kind: Kind,
  payload: HostPayload<Kind>,
): string {
  return JSON.stringify(payload);
}
