/** The events of an execution and its result, and their form on the wire. */

import { z } from 'zod';
import { executionStatuses, type Status } from './enums.ts';
import type { ErrorCode } from './error-codes.ts';
import { CellaError } from './errors.ts';
import { type LostVariable, lostList, restoredList } from './kernel-state.ts';
import { type PyValue, valueFromWire, valueToJson, valueToWire } from './py-values.ts';
import { milliseconds, TransactionPolicy } from './session-info.ts';

/** By MIME type: text unchanged, binary data as base64, `application/json` as a value. */
export type MimeBundle = Readonly<Record<string, PyValue>>;

/** The number of the execution that it belongs to, if it comes after that execution's result. */
interface NumberedOutput {
  readonly execution?: number;
}

export interface OutputEvent extends NumberedOutput {
  readonly type: 'stdout' | 'stderr';
  readonly text: string;
}

export interface DisplayEvent extends NumberedOutput {
  readonly type: 'display';
  readonly data: MimeBundle;
}

/** The variables of an idle kernel were saved. */
export interface SavedEvent {
  readonly type: 'saved';
  readonly id: string;
  readonly variables: number;
  readonly bytes: number;
  /** The first of them. */
  readonly lost: readonly LostVariable[];
  /** How many more are lost; absent if all are listed. */
  readonly moreLost?: number | undefined;
}

/** The progress of work that the host does for the code, such as installing packages: one line. */
export interface ProgressEvent {
  readonly type: 'progress';
  /** The call of the code, such as `deps.add`. */
  readonly task: string;
  readonly text: string;
}

/** Something in the sandbox tried to reach a host that its network policy does not allow. */
export interface NetworkDeniedEvent {
  readonly type: 'network_denied';
  readonly host: string;
  readonly port: number;
  /** `not_listed`, `port_not_listed` or `private_address`. */
  readonly reason: string;
  /** How many other attempts were denied since the last event. A flood of attempts is not reported one by one. */
  readonly more?: number | undefined;
}

/** Events of a session between its executions. */
export type BackgroundEvent = OutputEvent | DisplayEvent | ProgressEvent | SavedEvent | NetworkDeniedEvent;

/** The code waits in input() or getpass(). Answer with `answerInput(id, text)` or refuse with `cancelInput(id)`. */
export interface InputRequestEvent {
  readonly type: 'input_request';
  readonly id: number;
  readonly prompt: string;
  readonly password: boolean;
}

export const ExecutionError = z.object({
  /** The exception's class, or a Cella error code if no Python exception was raised. */
  name: z.string(),
  message: z.string(),
  traceback: z.string(),
  /** Set if the code called sys.exit. */
  exitCode: z.number().optional(),
});
export type ExecutionError = z.infer<typeof ExecutionError>;

const deathCodes = [
  'KERNEL_DIED',
  'KERNEL_OUT_OF_MEMORY',
  'KERNEL_CPU_LIMIT',
  'KERNEL_PROTOCOL',
] as const satisfies readonly ErrorCode[];

/** How a kernel ended. */
export const Death = z.object({
  code: z.enum(deathCodes),
  message: z.string(),
  signal: z.string().optional(),
  exitCode: z.number().optional(),
  /** The last lines that the kernel wrote to stderr. */
  lastStderr: z.string().optional(),
});
export type Death = z.infer<typeof Death>;

/** The variables of a kernel that was started from a save. In `lost`, the name `*` stands for names that are no longer known. */
export const Resumed = z.object({
  /** The age of the save. Absent if no save can be read: all variables are lost. */
  savedAgoMs: z.number().optional(),
  ...restoredList,
  ...lostList,
});
export type Resumed = z.infer<typeof Resumed>;

export const Recovered = z.object({ ...Resumed.shape, cause: Death });
export type Recovered = z.infer<typeof Recovered>;

/** What was left out of a result because it was too large. Readers of the stream got it, except `mimeTypes` and `streamedBytes`. */
export const Truncated = z.object({
  stdoutBytes: z.number().optional(),
  stderrBytes: z.number().optional(),
  reprCharacters: z.number().optional(),
  displays: z.number().optional(),
  /** MIME types beyond the 100 that one value or display may have, or too large. */
  mimeTypes: z.number().optional(),
  /** Bytes of events that were lost because nobody read them while the code was being stopped. */
  streamedBytes: z.number().optional(),
});
export type Truncated = z.infer<typeof Truncated>;

/** What the first result of a new kernel reports. */
export interface Notice {
  readonly recovered?: Recovered;
  readonly resumed?: Resumed;
}

export interface ResultEvent {
  readonly type: 'result';
  readonly status: Status;
  /** The number of this execution in its session: cells are named `<cell N>` after it. */
  readonly execution: number;
  /** The last expression's value; absent if there was none, or it was None. */
  readonly value?: PyValue;
  readonly repr?: string;
  /** Rich forms of the value, if it has any. */
  readonly data?: MimeBundle;
  readonly stdout: string;
  readonly stderr: string;
  readonly displays: readonly DisplayEvent[];
  readonly error?: ExecutionError;
  /** Set if the code called sys.exit() with success. A failure is an error with its exit code. */
  readonly exitCode?: 0;
  readonly truncated?: Truncated;
  /** Set if the kernel died during this execution. */
  readonly death?: Death;
  /** What happened to the changes of a cell that ran in a transaction; absent without a transaction. */
  readonly transaction?: 'committed' | 'rolled_back' | 'open';
  /** Set on the first result after a kernel died: which of its variables were restored, and which were lost. */
  readonly recovered?: Recovered;
  /** Set on the first result of a kernel that was resumed from a save. */
  readonly resumed?: Resumed;
  readonly durationMs: number;
}

export type ExecutionEvent = OutputEvent | DisplayEvent | ProgressEvent | InputRequestEvent | ResultEvent;

/** An event in a form that JSON can represent. */
export function eventToJson(event: ExecutionEvent): unknown {
  if (event.type === 'display') return { ...event, data: valueToJson(event.data) };
  if (event.type !== 'result') return event;
  return {
    ...event,
    value: event.value === undefined ? undefined : valueToJson(event.value),
    data: event.data && valueToJson(event.data),
    displays: event.displays.map(eventToJson),
  };
}

/** A value as `valueToWire` writes it. */
export const Value = z.unknown();
export const Bundle = z.record(z.string(), Value);
export type Bundle = z.infer<typeof Bundle>;

/** A file with data that was too large for an event; see `GET /v1/sessions/:id/outputs/:file`. */
export const OutputFile = z.object({
  file: z.string(),
  mediaType: z.string(),
  /** The size at the time of the event. The file can grow until the result. */
  bytes: z.int().min(0),
});
export type OutputFile = z.infer<typeof OutputFile>;

/** The end of an execution without its output, which is in earlier events. */
export const resultFields = {
  status: z.enum(executionStatuses),
  /** The number of the cell in its kernel: tracebacks name it `<cell N>`. */
  number: z.int().min(0),
  value: Value.optional(),
  repr: z.string().optional(),
  data: Bundle.optional(),
  error: ExecutionError.optional(),
  exitCode: z.literal(0).optional(),
  truncated: Truncated.optional(),
  death: Death.optional(),
  transaction: z.enum(['committed', 'rolled_back', 'open']).optional(),
  recovered: Recovered.optional(),
  resumed: Resumed.optional(),
  durationMs: z.number(),
};

/** The JSON response of `execute`: the result with all output that a result keeps. */
export const ExecutionResult = z.object({
  ...resultFields,
  stdout: z.string(),
  stderr: z.string(),
  displays: z.array(z.object({ type: z.literal('display'), data: Bundle })),
  /** Output and values that went to files. */
  files: z.array(OutputFile).optional(),
});
export type ExecutionResult = z.infer<typeof ExecutionResult>;

export function bundleToWire(data: MimeBundle): Bundle {
  return Object.fromEntries(Object.entries(data).map(([type, value]) => [type, valueToWire(value)]));
}

export function resultToWire({ type, execution, value, data, displays, ...rest }: ResultEvent): ExecutionResult {
  return {
    ...rest,
    number: execution,
    value: value === undefined ? undefined : valueToWire(value),
    data: data && bundleToWire(data),
    displays: displays.map((display) => ({ type: 'display', data: bundleToWire(display.data) })),
  };
}

/** For clients: the result as the library returns it. */
export function resultFromWire(result: ExecutionResult): ResultEvent {
  const { number, value, data, displays, files, ...rest } = result;
  return {
    type: 'result',
    execution: number,
    ...rest,
    // A cell without a value has no such field, as in the library.
    ...(value === undefined ? {} : { value: valueFromWire(value) }),
    ...(data === undefined ? {} : { data: bundleFromWire(data) }),
    displays: displays.map((display) => ({ type: 'display', data: bundleFromWire(display.data) })),
  };
}

export function bundleFromWire(data: z.infer<typeof Bundle>): MimeBundle {
  return Object.fromEntries(Object.entries(data).map(([type, value]) => [type, valueFromWire(value)]));
}

const MOST_CODE = 4_000_000;

export const executeFields = {
  code: z.string().max(MOST_CODE),
  timeoutMs: milliseconds.optional(),
  inputTimeoutMs: milliseconds.optional(),
  transaction: TransactionPolicy.optional(),
};

export const IdempotencyKey = z.string().regex(/^[\x21-\x7e]{1,200}$/, 'must be 1 to 200 printable characters');

/** A session, local or on a server, that can answer `input()`. */
export interface Answerable {
  answerInput(id: number, text: string): Promise<void>;
  cancelInput(id: number, reason?: string): Promise<void>;
}

const NOBODY_ANSWERS = 'input() was called, but nobody can answer it: pass `onInput` to run(), or read stream()';

/** Answers `input()` of a cell with `onInput`. Without it, `input()` fails at once. */
export async function giveInput(
  session: Answerable,
  request: InputRequestEvent,
  onInput: ((request: InputRequestEvent) => string | Promise<string>) | undefined,
): Promise<void> {
  try {
    if (!onInput) await session.cancelInput(request.id, NOBODY_ANSWERS);
    else await session.answerInput(request.id, await onInput(request));
  } catch (error) {
    if (error instanceof CellaError && error.code === 'INPUT_NOT_PENDING') return;
    // If this fails, the request was already answered, or the cell reports the problem.
    await session.cancelInput(request.id, `the answer failed: ${error}`).catch(() => {});
  }
}
