/** What an execution tells its reader: events while it runs, and one result at the end. */

import type { LostName } from './checkpoint.ts';
import type { ErrorCode } from './errors.ts';
import { type PyValue, valueToJson } from './py-values.ts';

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
    ...(event.value === undefined ? {} : { value: valueToJson(event.value) }),
    ...(event.data === undefined ? {} : { data: valueToJson(event.data) }),
    displays: event.displays.map(eventToJson),
  };
}
