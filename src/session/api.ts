/** SessionApi: what a client holds, in this process or across a wire. CLI and console know nothing else. */

import type { Capabilities, ExecutorKind } from '../protocol/enums.ts';
import type {
  BackgroundEvent,
  ExecutionEvent,
  InputRequestEvent,
  ResultEvent,
  Status,
} from '../protocol/execution-events.ts';
import type { LostName } from '../protocol/kernel-state.ts';
import type { TransactionPolicy } from '../protocol/session-info.ts';
import type { NamespacesApi } from './api-namespaces.ts';

export type * from './api-agent.ts';
export type * from './api-namespaces.ts';

export interface ExecuteOptions {
  /** Interrupts the code after this long, and kills it after a grace period. 0 means no limit. */
  readonly timeoutMs?: number;
  /** Stops waiting: a queued execution is taken back, a running one interrupted. */
  readonly signal?: AbortSignal;
  /** How long one input() may wait for its answer. */
  readonly inputTimeoutMs?: number;
  /** What becomes of the changes that the code makes. */
  readonly transaction?: TransactionPolicy;
}

/** A point to go back to: `live` in the memory of the kernel, `durable` in storage. */
export interface Checkpoint {
  readonly id: string;
  readonly name?: string;
  readonly kind: 'live' | 'durable';
  /** Made by itself, for recovery and hibernation. */
  readonly automatic: boolean;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  /** How many executions the session had had. */
  readonly execution: number;
  /** Durable ones tell what is in them. */
  readonly bytes?: number;
  readonly python?: string;
  readonly saved?: readonly string[];
  readonly lost?: readonly LostName[];
  /** Why a live one cannot be gone back to any more. */
  readonly gone?: string;
}

export interface CheckpointOptions {
  /** What to call it. A live one of the same name is replaced. */
  readonly name?: string;
  /** Into storage, for another process, another machine, or after a reboot. */
  readonly durable?: boolean;
}

export interface ForkOptions {
  /** Who owns the other kernel. */
  readonly agentKey: string;
  /** A live checkpoint to begin with, instead of now. */
  readonly from?: string;
  /** Also where a server has a session for that key, which is deleted. Without a server its names are lost in any case. */
  readonly replace?: boolean;
}

/** What a durable checkpoint brought back; a live one brings back everything. */
export interface Restored {
  readonly checkpoint: Checkpoint;
  readonly restored?: readonly string[];
  readonly lost?: readonly LostName[];
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

/** What is known of an agent, whoever holds it. */
export interface AgentInfo {
  readonly agentKey: string;
  /** `live`: a process holds it. */
  readonly state: 'live' | 'hibernated';
  readonly holder?: { readonly pid: number; readonly since: number };
  /** The process that its kernel descends from. */
  readonly pid?: number;
  /** Of its processes; absent where this user may not look. */
  readonly memoryBytes?: number;
  /** Since it was last saved or ended. */
  readonly idleMs: number;
  readonly lastSave?: { readonly id: string; readonly at: number };
  readonly executions: number;
  /** The agent whose workspace it shares. */
  readonly workspaceOf?: string;
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

export interface SessionApi extends NamespacesApi, AsyncDisposable {
  readonly agentKey: string;
  /** Where its code runs. */
  readonly executor: ExecutorKind;
  /** False where nothing isolates its code. */
  readonly sandboxed: boolean;
  /** What that executor can do. What it cannot is refused with `CAPABILITY_MISSING`. */
  readonly capabilities: Capabilities;
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
  /** Keeps the changes of an explicit transaction. */
  commit(): Promise<void>;
  /** Takes the changes of an explicit transaction back. */
  rollback(): Promise<void>;
  checkpoint(options?: CheckpointOptions): Promise<Checkpoint>;
  /** Oldest first. */
  checkpoints(): Promise<readonly Checkpoint[]>;
  /** Goes back: every name is what it was then, and later names are gone. */
  restore(idOrName: string): Promise<Restored>;
  deleteCheckpoint(idOrName: string): Promise<void>;
  /** Another kernel with the same memory. Both go on independently, in the same sandbox and workspace. */
  fork(options: ForkOptions): Promise<SessionApi>;
  /** Goes back to before the last cell that was not undone; needs the option `undo`. */
  undo(): Promise<void>;
  /** Writes what has changed to storage, without waiting until nothing runs for a while. */
  save(): Promise<void>;
  /** Saves the names and ends the kernel; the next call brings it back. */
  hibernate(): Promise<void>;
  complete(code: string, cursor?: number): Promise<Completion>;
  inspect(code: string, cursor?: number): Promise<Inspection>;
  isComplete(code: string): Promise<Completeness>;
  history(): Promise<readonly HistoryEntry[]>;
  variables(): Promise<readonly Variable[]>;
  /**
   * What threads, tasks and child processes write or show after their cell has ended, and automatic saves. For one
   * reader at a time.
   */
  background(): AsyncIterable<BackgroundEvent>;
  /** Ends the session; names are saved first, unless something still ran. */
  close(): Promise<void>;
  /** Ends the session and deletes everything of its agent: names, checkpoints, history and workspace. */
  destroy(): Promise<void>;
}
