/** What kernels, pid 1 of a sandbox and the template send to the host: every payload with its schema and its size limit. */

import { z } from 'zod';
import { FrameError, FrameType } from './kernel-frames.ts';
import { KernelLimit } from './kernel-limits.ts';
import { decodeCounted, decodeValue } from './kernel-marshal.ts';
import { PyObject, type PyValue } from './py-values.ts';

const MB = 1024 * 1024;
/** Calls that carry a piece of a file. */
const FILE_CALLS: ReadonlySet<string> = new Set(['artifacts.write']);
/** The header of a part, as JSON: all names may be in one, each character as an escape. */
const LARGEST_HEADER = 4 * MB;

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
  [FrameType.saved, 16 * MB],
  [FrameType.loaded, 16 * MB],
]);

/** The same for the connection that belongs to pid 1 of a sandbox. */
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

/** Every tag begins with a byte that is in no UTF-8 text. */
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
const MeasuredPayload = z.strictObject({ kernels: sizes, snapshots: sizes });
const SnapshotTakenPayload = z.strictObject({ unsafe: z.string().optional() });
const names = z.array(name).max(KernelLimit.mostVariables);
const lostNames = z.array(z.strictObject({ name, reason: z.string().max(1000) })).max(KernelLimit.mostVariables + 1);
const SavedPayload = z.strictObject({
  python: z.string(),
  saved: names,
  lost: lostNames,
  /** Set where nothing could be saved at all. */
  failed: z.string().max(1000).optional(),
});
const LoadedPayload = z.strictObject({ restored: names, lost: lostNames });
/** Before each piece of a segment, in both directions; the pieces of a segment come one after the other. */
const PartHeader = z.strictObject({ kind: z.string().min(1).max(40), names, portable: z.boolean(), last: z.boolean() });
/** Behind the last piece, to a kernel: the version of Python that wrote them. */
const LoadEnd = z.strictObject({ end: z.literal(true), python: z.string() });
const FailedPayload = z.strictObject({ layer: z.string(), message: z.string() });
const OpenedPayload = z.strictObject({ pid: z.int() });
const AttachedPayload = z.strictObject({ out: z.string(), err: z.string() });

export type HelloPayload = z.infer<typeof HelloPayload>;
export type ResultPayload = z.infer<typeof ResultPayload>;
export type DisplayPayload = z.infer<typeof DisplayPayload>;
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

/** Of a cell without output or error, with a value or without one: most results are such, and not worth a schema's time. */
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
  const [issue] = parsed.error.issues;
  // It names keys, which the kernel may have chosen.
  throw new FrameError(`a frame of the wrong shape: ${issue?.path.join('.')} ${issue?.message}`.slice(0, 300));
}

export const parseHello = asValue(HelloPayload);
export const parseResult = (payload: Buffer): ResultPayload => {
  const data = decodeValue(payload);
  return isPlainResult(data) ? data : check(ResultPayload, data);
};
/** With how many items it has in all. */
export const parseDisplay = (payload: Buffer): DisplayPayload & { readonly items: number } => {
  const { value: data, items } = decodeCounted(payload);
  return { ...check(DisplayPayload, data), items };
};
export const parseCall = (payload: Buffer): [string, Record<string, PyValue>] => {
  const [method, params] = check(CallPayload, decodeValue(payload));
  if (payload.length > KernelLimit.largestCallBytes && !FILE_CALLS.has(method)) {
    throw new FrameError(`a call of ${payload.length} bytes where ${KernelLimit.largestCallBytes} are allowed`);
  }
  return [method, params];
};
export const parseInputCall = (params: PyValue): InputCall => check(InputCall, params);
export const parseAnswer = asValue(AnswerPayload);
export const parseSnapshotTaken = asValue(SnapshotTakenPayload);
export const parseSaved = asValue(SavedPayload);
export const parseLoaded = asValue(LoadedPayload);

/** `header length u32, header as JSON, bytes`. */
export function parsePart(payload: Buffer): { header: PartHeader; bytes: Buffer } {
  const length = payload.length >= 4 ? payload.readUInt32LE(0) : payload.length;
  if (4 + length > payload.length) throw new FrameError('a part that is shorter than its header');
  if (length > LARGEST_HEADER) throw new FrameError(`a header of ${length} bytes where ${LARGEST_HEADER} are allowed`);
  const header = parseJson(payload.toString('utf8', 4, 4 + length));
  const bytes = payload.subarray(4 + length);
  // Whoever keeps the bytes must not keep a long header with them.
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
