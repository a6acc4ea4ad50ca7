/** What kernels, pid 1 of a sandbox and the template send to the host: every payload with its schema and its size limit. */

import { z } from 'zod';
import { FrameError, FrameType } from './kernel-frames.ts';
import { decodeCounted, decodeValue } from './kernel-marshal.ts';
import { PyObject, type PyValue } from './py-values.ts';

const MB = 1024 * 1024;
/** Of a call: one that carries a piece of a file, and any other. */
const LARGEST_PIECE = 9 * MB;
const LARGEST_CALL = 2 * MB;
const PIECES: ReadonlySet<string> = new Set(['artifacts.write']);
/** MIME types of one bundle, and the characters of each. */
const MOST_FORMS = 100;
const LONGEST_NAME = 255;
/** Variables of one checkpoint: how many, and their names in all. Each may be in two segments. */
const MOST_NAMES = 10_000;
/** The header of a part, as JSON: all names may be in one, each character as an escape. */
const LARGEST_HEADER = 4 * MB;
/** What stands before output of an execution that is over. */
export const LABEL_BYTES = 16;

/** The largest payload of each frame that a kernel may send. */
export const fromKernel: ReadonlyMap<number, number> = new Map([
  [FrameType.attached, 4096],
  [FrameType.failed, 64 * 1024],
  [FrameType.hello, 4096],
  [FrameType.result, 24 * MB],
  [FrameType.display, 9 * MB],
  [FrameType.answer, 4 * MB],
  [FrameType.call, LARGEST_PIECE],
  [FrameType.cancel, 0],
  [FrameType.twinned, 64 * 1024],
  [FrameType.part, 13 * MB],
  [FrameType.saved, 16 * MB],
  [FrameType.loaded, 16 * MB],
]);

/** The same for the connection that belongs to pid 1 of a sandbox. */
export const fromSupervisor: ReadonlyMap<number, number> = new Map([
  [FrameType.opened, 4096],
  [FrameType.failed, 64 * 1024],
  [FrameType.died, 4096],
  [FrameType.gone, 4096],
  [FrameType.measured, 64 * 1024],
]);

const marks = z.tuple([z.int().min(0), z.int().min(0)]);
const value = z.custom<PyValue>((item) => item !== undefined);
const record = z.custom<Record<string, PyValue>>(
  (item) => typeof item === 'object' && item !== null && !Array.isArray(item) && !(item instanceof PyObject),
);
const bundle = record
  .refine((item) => Object.keys(item).length <= MOST_FORMS, `has more than ${MOST_FORMS} MIME types`)
  .refine((item) => Object.keys(item).every((type) => type.length <= LONGEST_NAME), 'has a MIME type that is too long');

const name = z.string().max(LONGEST_NAME);
const ErrorPayload = z.strictObject({
  name,
  message: z.string().max(64 * 1024),
  traceback: z.string().max(256 * 1024),
  exitCode: z.int().optional(),
});

/** Every label begins with a byte that is in no UTF-8 text. */
const label = z.instanceof(Uint8Array).refine((bytes) => bytes.length === LABEL_BYTES && bytes[0] === 0xff);
const HelloPayload = z.strictObject({ python: z.string(), implementation: z.string(), label });
const ResultPayload = z.strictObject({
  status: z.enum(['ok', 'error']),
  value: value.optional(),
  repr: z.string().max(MB).optional(),
  reprCut: z.int().min(0).optional(),
  data: bundle.optional(),
  /** How many MIME types were left out of `data`. */
  dataCut: z.int().min(0).optional(),
  error: ErrorPayload.optional(),
  /** sys.exit() without a failure. */
  exitCode: z.literal(0).optional(),
  marks,
});
const DisplayPayload = z.strictObject({ data: bundle, marks, dataCut: z.int().min(0).optional() });
const InputCall = z.strictObject({
  ...{ execution: z.int(), prompt: z.string().max(64 * 1024), password: z.boolean() },
  marks,
});
const CallPayload = z.tuple([z.string().max(64), record]);
const AnswerPayload = z.union([z.strictObject({ value }), z.strictObject({ error: ErrorPayload })]);
const DiedPayload = z.strictObject({
  signal: z.int().optional(),
  exitCode: z.int().optional(),
  outOfMemory: z.boolean(),
});
const GonePayload = z.strictObject({ outOfMemory: z.boolean() });
const sizes = z.record(z.string().regex(/^\d+$/), z.number());
const MeasuredPayload = z.strictObject({ kernels: sizes, twins: sizes });
const TwinnedPayload = z.strictObject({ unsafe: z.string().optional() });
const names = z.array(name).max(MOST_NAMES);
const lostNames = z.array(z.strictObject({ name, reason: z.string().max(1000) })).max(MOST_NAMES + 1);
const SavedPayload = z.strictObject({
  python: z.string(),
  saved: names,
  lost: lostNames,
  /** Set where nothing could be saved at all. */
  failed: z.string().max(1000).optional(),
});
const LoadedPayload = z.strictObject({ restored: names, lost: lostNames });
/** Of one piece of a segment; the pieces of a segment come one after the other, each with the same header. */
const PartHeader = z.strictObject({ kind: z.string().min(1).max(40), names, portable: z.boolean(), last: z.boolean() });
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
  const { status, marks: counts, repr, value: _any, ...rest } = data as Record<string, PyValue | undefined>;
  if (status !== 'ok' || !Array.isArray(counts) || counts.length !== 2 || Object.keys(rest).length > 0) return false;
  return counts[0] === 0 && counts[1] === 0 && (repr === undefined || (typeof repr === 'string' && repr.length <= MB));
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
  if (payload.length > LARGEST_CALL && !PIECES.has(method)) {
    throw new FrameError(`a call of ${payload.length} bytes where ${LARGEST_CALL} are allowed`);
  }
  return [method, params];
};
export const parseInputCall = (params: PyValue): InputCall => check(InputCall, params);
export const parseAnswer = asValue(AnswerPayload);
export const parseTwinned = asValue(TwinnedPayload);
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

export function encodePart(header: object, bytes: Uint8Array): Buffer {
  const head = Buffer.from(JSON.stringify(header));
  const payload = Buffer.allocUnsafe(4 + head.length + bytes.length);
  payload.writeUInt32LE(head.length, 0);
  payload.set(head, 4);
  payload.set(bytes, 4 + head.length);
  return payload;
}

export const parseDied = asJson(DiedPayload);
export const parseGone = asJson(GonePayload);
export const parseMeasured = asJson(MeasuredPayload);
export const parseFailed = asJson(FailedPayload);
export const parseOpened = asJson(OpenedPayload);
export const parseAttached = asJson(AttachedPayload);
