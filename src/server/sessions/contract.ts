/**
 * What the rest of the server knows of sessions. Who may do what is decided before these calls; here an id that is not
 * there is `NOT_FOUND`, and everything that is written down has been checked.
 */

import type { FilesRoot } from '../../environments/files/session-files.ts';
import type { Role } from '../../protocol/access-models.ts';
import type { ExecutionResult } from '../../protocol/execution-events.ts';
import type { FeedItem } from '../../protocol/session-events.ts';
import type {
  NewFork,
  NewSession,
  SessionChange,
  SessionInfo,
  SessionPage,
  SessionQuery,
  TransactionPolicy,
} from '../../protocol/session-info.ts';
import type { AgentInfo, HistoryEntry, SessionApi } from '../../session/api.ts';
import type { PoolMetrics } from '../../session/kernel-pool.ts';
import type { Session } from '../../session/session.ts';
import type { OpenedNamespaces } from '../../session/session-namespaces.ts';
import type { Attendant } from '../permissions/attendants.ts';
import type { RuleBook, SessionPermissions } from '../permissions/contract.ts';
import type { Tenant } from '../runners/contract.ts';
import type { SessionTurnsApi } from '../turns/contract.ts';

export interface SessionHost extends AsyncDisposable {
  /** The one that the owner has under this key, where the options are the same; `SESSION_CONFLICT` where they are not. */
  create(ownerId: string, wanted: NewSession): Promise<{ readonly session: SessionInfo; readonly created: boolean }>;
  /**
   * Oldest first; those alone that `visible` allows. One call looks through a bounded number of sessions: a page may be
   * short, or empty, and `next` says where to go on. `viewer`: only those that may be visible to them are looked at.
   */
  list(query: SessionQuery, visible?: (session: SessionInfo) => boolean, viewer?: Viewer): Promise<SessionPage>;
  /** Of all users together. */
  count(): Promise<number>;
  /** Those made from this one, and not from its forks. */
  forksOf(id: string): Promise<readonly SessionInfo[]>;
  /** Those of a user that are open on some server, and those that are named; their state says whether a kernel lives. */
  liveOf(ownerId: string, named?: Iterable<string>): Promise<readonly SessionInfo[]>;
  get(id: string): Promise<SessionInfo>;
  find(ownerId: string, agentKey: string): Promise<SessionInfo | undefined>;
  update(id: string, change: SessionChange, options?: { readonly by?: string }): Promise<SessionInfo>;
  /** Ends what runs and deletes everything: kernel, workspace, events, checkpoints, files, and at last the session. */
  delete(id: string): Promise<void>;
  /** Another session of this owner with the same memory, in the same workspace. */
  fork(id: string, ownerId: string, wanted: NewFork): Promise<SessionInfo>;
  /** From here on, the code of a fork of somebody else's session uses what is its owner's. Who may is checked before. */
  confirm(id: string, options?: { readonly by?: string }): Promise<SessionInfo>;
  /** Deletes skills, artifacts and deps of a user whose sessions are gone. Those of `local` stay: they are the operator's. */
  forget(ownerId: string): Promise<void>;
  /** What a user has allowed for good. */
  rulesOf(userId: string): RuleBook;
  open(id: string): Promise<HostedSession>;
  /** Tools, skills, artifacts and packages of a user, to be looked at: by way of the session where it is in use. Wakes no kernel. */
  things(ownerId: string, sessionId?: string): Promise<OpenedNamespaces>;
  /** The sessions of this server that have a live kernel, and what it does. */
  live(): Promise<Record<string, 'idle' | 'running'>>;
  /** By the id of its locks: which other server has it. Undefined where this one has it, or nobody. */
  holderOf(session: SessionInfo): Promise<string | undefined>;
  /** Every agent of this owner, those without a session too. */
  agents(ownerId: string): Promise<readonly AgentInfo[]>;
  /** Has the live kernels of this owner find the packages as they are configured now. */
  refreshPackages(ownerId: string): Promise<void>;
  /**
   * No new work from here on (`DAEMON_STOPPING`); what runs has this long, and is interrupted then. Kernels are saved,
   * and every reader of events ends with `DAEMON_STOPPING`.
   */
  drain(graceMs: number): Promise<void>;
  metrics(): Promise<HostMetrics>;
  /** Private memory of all live kernels, in bytes. Those that do not tell within a second are left out. */
  kernelMemory(): Promise<number>;
  /** Tells from here on how each execution ended, and how long it took since its turn came. */
  onEnded(told: (ending: string, ms: number) => void): void;
  /** As `drain(0)`. May be called again. */
  close(): Promise<void>;
}

/** Somebody who sees their own sessions, and those shared with them or their role. */
export interface Viewer {
  readonly userId: string;
  readonly role: Role;
}

export interface HostedSession {
  readonly id: string;
  /** Of its coding agent. */
  readonly turns: SessionTurnsApi;
  info(): Promise<SessionInfo>;
  /** Resolves when the code is accepted: it runs when its turn comes, in the order in which it was accepted. */
  accept(code: string, options?: HostedExecuteOptions): Promise<AcceptedExecution>;
  /** Resolves when the code's turn has come and its first event is durable. */
  start(code: string, options?: HostedExecuteOptions): Promise<StartedExecution>;
  /** Resolves when its ending is durable. Exceptions in the code are results, not rejections. */
  execute(code: string, options?: HostedExecuteOptions): Promise<ExecutionOutcome>;
  /**
   * What there is after a number, and then what comes, each once. It ends by itself with `execution` (after its ending),
   * and where the session is deleted. A reader who is slow costs nothing: it is read from the log for him.
   */
  events(options?: FeedOptions): AsyncIterable<FeedItem>;
  /** The numbers of the last event that is gone and of the last that there is. */
  position(): Promise<{ readonly floor: number; readonly last: number }>;
  interrupt(): Promise<boolean>;
  /** Only the execution that came with this key: interrupted where it runs, taken back where it waits. */
  interruptKeyed(idempotencyKey: string): Promise<boolean>;
  /** The first answer wins; the others get `INPUT_NOT_PENDING`. */
  answerInput(id: number, text: string, options?: { readonly by?: string }): Promise<void>;
  cancelInput(id: number, options?: { readonly reason?: string; readonly by?: string }): Promise<void>;
  /** What waits for somebody's leave: of an agent, and of tools that require approval. */
  readonly permissions: SessionPermissions & {
    /** Somebody is there who answers. A tool of a kernel's code is refused where nobody is. */
    attend(): Attendant;
    /** One of those leaves an answer to the others. */
    abstain(id: string, attendant: number): void;
  };
  /** What was too large for an event; `NOT_FOUND` where there is no such file, or it is gone by now. */
  openOutput(file: string): Promise<OutputContent>;
  /** The folder of its files on the host; undefined where no kernel has made it yet. Wakes no kernel. */
  workspace(): Promise<FilesRoot | undefined>;
  /** The cells that it has run, oldest first. Wakes no kernel. */
  history(): Promise<readonly HistoryEntry[]>;
  /** The rest. What it runs is in the log as well, and so is what it does to the session. Wakes the kernel. */
  api(): Promise<SessionApi>;
  /** The session in this process, for its workspace and its sandbox. Nothing that it runs is in the log. */
  session(): Promise<Session>;
  /** What an executor for its agent is made from. Wakes no kernel. */
  tenant(): Promise<Tenant>;
  /** The same, for work that takes long, such as a terminal: its kernel does not fall asleep meanwhile. */
  use<T>(work: (session: Session) => Promise<T>): Promise<T>;
}

export interface HostedExecuteOptions {
  readonly timeoutMs?: number;
  readonly inputTimeoutMs?: number;
  readonly transaction?: TransactionPolicy;
  /** The same text twice runs the code once: a retry waits for it, or gets what it gave. */
  readonly idempotencyKey?: string;
  /** Stops the code: only for a caller who wants that when he goes. */
  readonly signal?: AbortSignal;
  /** The id of the user who asks. */
  readonly by?: string;
}

export interface AcceptedExecution {
  readonly execution: string;
  /** Whether another request with the same key has brought it. */
  readonly joined: boolean;
  /** The number of its `execution_started`, when its turn has come. */
  readonly started: Promise<number>;
  readonly outcome: Promise<ExecutionOutcome>;
}

export interface StartedExecution {
  readonly execution: string;
  /** The number of its `execution_started`. */
  readonly firstSeq: number;
  /** Whether another request with the same key has started it. */
  readonly joined: boolean;
  readonly outcome: Promise<ExecutionOutcome>;
}

export interface ExecutionOutcome {
  readonly execution: string;
  readonly firstSeq: number;
  /** Whether another request with the same key has run it. */
  readonly joined: boolean;
  readonly result: ExecutionResult;
}

export interface FeedOptions {
  /** 0, the default, begins with the first that there is. */
  readonly after?: number;
  /** Events of this execution alone. */
  readonly execution?: string;
  /** Events of this turn alone, to its end. */
  readonly turn?: string;
  readonly signal?: AbortSignal;
}

export interface OutputContent {
  readonly mediaType: string;
  /** So far. */
  readonly bytes: number;
  /** From `offset` to what there was when it was opened. */
  read(options?: { readonly offset?: number }): AsyncIterable<Uint8Array>;
}

export interface HostMetrics {
  readonly pool: PoolMetrics;
  readonly running: number;
  readonly queued: number;
  /** Kernels that somebody had reset or restarted. */
  readonly restarts: number;
  /** By how they ended: a status, `failed` or `interrupted`. */
  readonly executions: Readonly<Record<string, number>>;
  /** Of agents, by how they ended. */
  readonly turns: Readonly<Record<string, number>>;
  readonly events: number;
  readonly eventsLost: number;
  readonly appendFailures: number;
  readonly readers: number;
}

/** How much of a log stays. */
export interface Retention {
  /** 0 means for ever, here and below. */
  readonly maxAgeMs: number;
  /** Of the events of one session, as JSON. */
  readonly maxBytes: number;
  /** Of the files of one session with what was too large for an event. */
  readonly maxFileBytes: number;
}
