/** SessionApi: what a client holds, in this process or across a wire. CLI and console know nothing else. */

import type {
  DisplayEvent,
  ExecutionEvent,
  InputRequestEvent,
  OutputEvent,
  ResultEvent,
  Status,
} from '../protocol/events.ts';

export interface ExecuteOptions {
  /** Interrupts the code after this long, and kills it after a grace period. 0 means no limit. */
  readonly timeoutMs?: number;
  /** Stops waiting: a queued execution is taken back, a running one interrupted. */
  readonly signal?: AbortSignal;
  /** How long one input() may wait for its answer. */
  readonly inputTimeoutMs?: number;
}

export interface RunOptions extends ExecuteOptions {
  /** Answers input() and getpass(). Without it, they raise EOFError at once. Throwing here raises EOFError too. */
  readonly onInput?: (request: InputRequestEvent) => string | Promise<string>;
  readonly onEvent?: (event: ExecutionEvent) => void;
}

export interface Completion {
  /** What may stand in place of the code from `start` to `end` (UTF-16 offsets, as in JavaScript strings). */
  readonly matches: readonly { readonly text: string; readonly type: string }[];
  readonly start: number;
  readonly end: number;
}

export interface Inspection {
  readonly found: boolean;
  readonly name?: string | undefined;
  readonly type?: string | undefined;
  readonly signature?: string | undefined;
  readonly doc?: string | undefined;
  readonly source?: string | undefined;
  readonly repr?: string | undefined;
}

/** `indent` is what the next line of incomplete code should begin with. */
export type Completeness =
  | { readonly status: 'complete' }
  | { readonly status: 'incomplete'; readonly indent: string }
  | { readonly status: 'invalid'; readonly message: string };

export interface Variable {
  readonly name: string;
  readonly type: string;
  /** Bytes: of an array's data where it tells, else of the object alone. */
  readonly size: number;
  /** `len()`, or an array's shape, as text; absent where there is none. */
  readonly length?: string;
  readonly preview: string;
}

export interface HistoryEntry {
  readonly execution: number;
  readonly code: string;
  readonly status: Status;
}

export interface SessionApi extends AsyncDisposable {
  readonly agentKey: string;
  /** Runs code to its end. Exceptions in the code are results, not rejections. */
  run(code: string, options?: RunOptions): Promise<ResultEvent>;
  /** Runs code and gives its events as they come, the result last. A slow reader slows the code. */
  stream(code: string, options?: ExecuteOptions): AsyncIterable<ExecutionEvent>;
  answerInput(id: number, text: string): Promise<void>;
  cancelInput(id: number, reason?: string): Promise<void>;
  /** Stops what runs now with KeyboardInterrupt. False where nothing ran. */
  interrupt(): Promise<boolean>;
  /** Clears every name, in the same sandbox. What runs is ended. */
  reset(): Promise<void>;
  /** Ends the sandbox and starts another: names, processes and /tmp are gone, the workspace stays. */
  restart(): Promise<void>;
  complete(code: string, cursor?: number): Promise<Completion>;
  inspect(code: string, cursor?: number): Promise<Inspection>;
  isComplete(code: string): Promise<Completeness>;
  history(): Promise<readonly HistoryEntry[]>;
  variables(): Promise<readonly Variable[]>;
  /** What threads, tasks and child processes write or show after their cell has ended. For one reader at a time. */
  background(): AsyncIterable<OutputEvent | DisplayEvent>;
  close(): Promise<void>;
}
