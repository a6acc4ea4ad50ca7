/** What an execution sends to its reader: events while it runs and one result at the end, and their form on the wire. */

import { z } from 'zod';
import type { ErrorCode } from './errors.ts';
import type { LostName } from './kernel-state.ts';
import { type PyValue, valueFromWire, valueToJson, valueToWire } from './py-values.ts';
import { milliseconds, TransactionPolicy } from './session-info.ts';

/** By MIME type: text as it is, binary data as base64, `application/json` as a value. */
export type MimeBundle = Readonly<Record<string, PyValue>>;

/** The number of the execution that it belongs to, where it comes after that one's result. */
interface Late {
  readonly execution?: number;
}

export interface OutputEvent extends Late {
  readonly type: 'stdout' | 'stderr';
  readonly text: string;
}

export interface DisplayEvent extends Late {
  readonly type: 'display';
  readonly data: MimeBundle;
}

/** The names of an idle kernel were written to storage. */
export interface SavedEvent {
  readonly type: 'saved';
  readonly id: string;
  readonly names: number;
  readonly bytes: number;
  readonly lost: readonly LostName[];
}

/** How far work is that the host does for the code, such as installing packages: one line. */
export interface ProgressEvent {
  readonly type: 'progress';
  /** What the code has called: `deps.add`. */
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
  /** How many others were denied since the last event: of a flood only some are told. */
  readonly more?: number | undefined;
}

/** What a session tells between its executions. */
export type BackgroundEvent = OutputEvent | DisplayEvent | ProgressEvent | SavedEvent | NetworkDeniedEvent;

/** The code waits in input() or getpass(). Answer with `answerInput(id, text)` or refuse with `cancelInput(id)`. */
export interface InputRequestEvent {
  readonly type: 'input_request';
  readonly id: number;
  readonly prompt: string;
  readonly password: boolean;
}

export type Status = 'ok' | 'error' | 'timeout' | 'interrupted' | 'died';

export interface ExecutionError {
  /** The exception's class, or a Cella error code where no Python exception was raised. */
  readonly name: string;
  readonly message: string;
  readonly traceback: string;
  /** Set where the code called sys.exit. */
  readonly exitCode?: number | undefined;
}

/** How a kernel came to its end. */
export interface Death {
  readonly code: Extract<ErrorCode, 'KERNEL_DIED' | 'KERNEL_OUT_OF_MEMORY' | 'KERNEL_CPU_LIMIT' | 'KERNEL_PROTOCOL'>;
  readonly message: string;
  readonly signal?: string;
  readonly exitCode?: number;
  /** The last lines that the kernel wrote to stderr. */
  readonly lastStderr?: string;
}

/** Names that came back from a save. */
export interface Woken {
  /** How old the save was; absent where there was none that can be read: every name is gone. */
  readonly savedAgoMs?: number;
  readonly restored: readonly string[];
  /** The name `*` stands for names that nobody knows any more. */
  readonly lost: readonly LostName[];
}

export interface Recovered extends Woken {
  readonly cause: Death;
}

/** What the first result of a kernel must tell. */
export interface Notice {
  readonly recovered?: Recovered;
  readonly woken?: Woken;
}

/** What was left out of a result because it was too large. All but `mimeTypes` and `streamedBytes` was streamed all the same. */
export interface Truncated {
  readonly stdoutBytes?: number;
  readonly stderrBytes?: number;
  readonly reprCharacters?: number;
  readonly displays?: number;
  /** MIME types beyond the 100 that one value or display may have, or too large. */
  readonly mimeTypes?: number;
  /** Bytes of events that a reader has missed, who did not read while the code had to be stopped. */
  readonly streamedBytes?: number;
}

export interface ResultEvent {
  readonly type: 'result';
  readonly status: Status;
  /** The number of this execution in its session: cells are named `<cell N>` after it. */
  readonly execution: number;
  /** The last expression's value; absent where there was none, or it was None. */
  readonly value?: PyValue;
  readonly repr?: string;
  /** Rich forms of the value, where it has any. */
  readonly data?: MimeBundle;
  readonly stdout: string;
  readonly stderr: string;
  readonly displays: readonly DisplayEvent[];
  readonly error?: ExecutionError;
  /** Set where the code called sys.exit() and means well; one that does not is an error with its exit code. */
  readonly exitCode?: 0;
  readonly truncated?: Truncated;
  /** Set where the kernel did not outlive this execution. */
  readonly death?: Death;
  /** What became of the changes of a cell that ran in a transaction; absent where it ran in none. */
  readonly transaction?: 'committed' | 'rolled_back' | 'open';
  /** Set on the first result after a kernel has died: what came back of its names, and what did not. */
  readonly recovered?: Recovered;
  /** Set on the first result after names came back from an earlier process, or from hibernation. */
  readonly woken?: Woken;
  readonly durationMs: number;
}

export type ExecutionEvent = OutputEvent | DisplayEvent | ProgressEvent | InputRequestEvent | ResultEvent;

/** An event as one line of JSON can hold it. */
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

/** A value as `toWire` writes it. */
export const Value = z.unknown();
export const Bundle = z.record(z.string(), Value);
export type Bundle = z.infer<typeof Bundle>;

const LostNames = z.array(z.object({ name: z.string(), reason: z.string() }));

const DeathSchema = z.object({
  code: z.enum(['KERNEL_DIED', 'KERNEL_OUT_OF_MEMORY', 'KERNEL_CPU_LIMIT', 'KERNEL_PROTOCOL']),
  message: z.string(),
  signal: z.string().optional(),
  exitCode: z.number().optional(),
  lastStderr: z.string().optional(),
});

const wokenFields = { savedAgoMs: z.number().optional(), restored: z.array(z.string()), lost: LostNames };

const TruncatedSchema = z.object({
  stdoutBytes: z.number().optional(),
  stderrBytes: z.number().optional(),
  reprCharacters: z.number().optional(),
  displays: z.number().optional(),
  mimeTypes: z.number().optional(),
  streamedBytes: z.number().optional(),
});

/** A file with what was too large for an event; see `GET /v1/sessions/:id/outputs/:file`. */
export const OutputFile = z.object({
  file: z.string(),
  mediaType: z.string(),
  /** At the time of the event: it may still grow until the result. */
  bytes: z.int().min(0),
});
export type OutputFile = z.infer<typeof OutputFile>;

/** What an ending is, without the output: that is in the events before it. */
export const resultFields = {
  status: z.enum(['ok', 'error', 'timeout', 'interrupted', 'died']),
  /** The number of the cell in its kernel: tracebacks name it `<cell N>`. */
  number: z.int().min(0),
  value: Value.optional(),
  repr: z.string().optional(),
  data: Bundle.optional(),
  error: z
    .object({ name: z.string(), message: z.string(), traceback: z.string(), exitCode: z.number().optional() })
    .optional(),
  exitCode: z.literal(0).optional(),
  truncated: TruncatedSchema.optional(),
  death: DeathSchema.optional(),
  transaction: z.enum(['committed', 'rolled_back', 'open']).optional(),
  recovered: z.object({ ...wokenFields, cause: DeathSchema }).optional(),
  woken: z.object(wokenFields).optional(),
  durationMs: z.number(),
};

/** What a JSON execute answers with: the ending and all of the output that a result keeps. */
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
    ...structuredRest(rest),
    number: execution,
    value: value === undefined ? undefined : valueToWire(value),
    data: data && bundleToWire(data),
    displays: displays.map((display) => ({ type: 'display', data: bundleToWire(display.data) })),
  };
}

type Rest = Omit<ResultEvent, 'type' | 'execution' | 'value' | 'data' | 'displays'>;

/** The lists of a ResultEvent may not be changed; those of the schema's type may. */
function structuredRest({ recovered, woken, ...rest }: Rest) {
  const lists = <T extends { restored: readonly string[]; lost: readonly { name: string; reason: string }[] }>(
    one: T,
  ) => ({
    ...one,
    restored: [...one.restored],
    lost: [...one.lost],
  });
  return {
    ...rest,
    recovered: recovered && lists(recovered),
    woken: woken && lists(woken),
  };
}

/** For a client: the same result as the library would give. */
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
