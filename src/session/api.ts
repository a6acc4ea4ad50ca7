/** The interfaces of a session: code, state, checkpoints, its four namespaces and its coding agent. Local and remote sessions implement them. */

import type { SkillInfo, SkillProblem } from '../namespaces/skills/skill.ts';
import type { NewSkill } from '../namespaces/skills/skills.ts';
import type { ToolProblem } from '../namespaces/tools/catalog.ts';
import type { ToolInfo } from '../namespaces/tools/tool-info.ts';
import type { AgentLogEvent } from '../protocol/agent-events.ts';
import type { Capabilities, ExecutorKind } from '../protocol/enums.ts';
import type {
  BackgroundEvent,
  ExecutionEvent,
  InputRequestEvent,
  ResultEvent,
  Status,
} from '../protocol/execution-events.ts';
import type { LostName } from '../protocol/kernel-state.ts';
import type { ArtifactFacts, ArtifactInfo } from '../protocol/namespace-models.ts';
import type { PermissionDecision, PermissionInfo } from '../protocol/permission.ts';
import type { PyValue } from '../protocol/py-values.ts';
import type { TransactionPolicy } from '../protocol/session-info.ts';
import type { AgentName, CodingAgent, PermissionMode, Transcript, TurnInfo } from '../protocol/turn.ts';

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

export interface PromptOptions {
  /** That of the turn before, else `claude`. */
  readonly agent?: AgentName;
  readonly mode?: PermissionMode;
  readonly model?: string;
  /** Those of the agent's own tools that it may use in this turn; without it, all. */
  readonly tools?: readonly string[];
  /** Of the turn, once it runs; 0 means no limit. */
  readonly timeoutMs?: number;
  /** `refuse`: `TURN_RUNNING` where another turn runs. By default it waits for its turn. */
  readonly onBusy?: 'queue' | 'refuse';
  readonly profile?: string;
  /** Stops the turn. */
  readonly signal?: AbortSignal;
}

/** The events of one turn as they come; they end with its `turn_ended`. */
export type TurnEvent = AgentLogEvent & { readonly seq: number; readonly at: number };

export interface AgentApi {
  /** The agents that there are, and whether they can be prompted here. */
  agents(): Promise<readonly CodingAgent[]>;
  /** Tells that a prompt is about to come, so that it need not wait for its executor. False where there is no room for one. */
  warmAgent(agent: AgentName): Promise<boolean>;
  /** Iterate over it for the events, or take `turn` alone: how it ended, which is also told where it failed. */
  prompt(prompt: string, options?: PromptOptions): PromptedTurn;
  /** Stops the turn that runs, also while a permission waits. The turns that were stopped. */
  stop(options?: { readonly turn?: string; readonly all?: boolean }): Promise<readonly string[]>;
  transcript(options?: { readonly conversation?: string }): Promise<Transcript>;
  /** What was asked for, oldest first. */
  permissions(options?: { readonly state?: 'pending' | 'resolved' }): Promise<readonly PermissionInfo[]>;
  /** `ALREADY_RESOLVED` where somebody was faster: who, and what, is in its `details`. */
  decidePermission(id: string, decision: PermissionDecision): Promise<PermissionInfo>;
}

export interface PromptedTurn extends AsyncIterable<TurnEvent> {
  readonly turn: Promise<TurnInfo>;
}

export type { SkillInfo, SkillParameter, SkillProblem } from '../namespaces/skills/skill.ts';
export type { NewSkill } from '../namespaces/skills/skills.ts';
export type { ToolProblem } from '../namespaces/tools/catalog.ts';
export type { Parameter as ToolParameter } from '../namespaces/tools/parameters.ts';
export type { Approval, ApprovalRequest, Approve } from '../namespaces/tools/tool-approval.ts';
export type { RecipeInfo, ToolInfo } from '../namespaces/tools/tool-info.ts';

/** For work that may take long. */
export interface WorkOptions {
  readonly signal?: AbortSignal;
  /** One line on how far it is. */
  readonly onProgress?: (text: string) => void;
}

export interface DepsResult {
  readonly installed: readonly string[];
  /** With the installer's reason. */
  readonly failed: readonly { readonly requirement: string; readonly reason: string }[];
  readonly removed?: readonly string[];
  readonly note?: string;
}

export interface DepsStatus {
  /** What is configured. */
  readonly requirements: readonly string[];
  /** The Python that kernels run here: `cp311-x86_64`. */
  readonly python: string;
  /** Whether all of it is installed for that Python. */
  readonly installed: boolean;
}

export interface DepsApi {
  list(): Promise<readonly string[]>;
  /** Nothing is installed by asking. */
  status(): Promise<DepsStatus>;
  add(requirements: string | readonly string[], options?: WorkOptions): Promise<DepsResult>;
  remove(name: string, options?: WorkOptions): Promise<DepsResult>;
  /** Installs what is configured and not there. */
  sync(options?: WorkOptions): Promise<DepsResult>;
}

export interface SkillsApi {
  list(): Promise<readonly SkillInfo[]>;
  get(name: string): Promise<SkillInfo & { readonly source: string }>;
  search(query: string, options?: { readonly limit?: number }): Promise<readonly SkillInfo[]>;
  create(skill: NewSkill, options?: { readonly replace?: boolean }): Promise<SkillInfo>;
  delete(name: string): Promise<void>;
  /** Files that are no skills, with the reason. */
  problems(): Promise<readonly SkillProblem[]>;
}

export interface ArtifactsApi {
  /** By name: all, or at most `limit` of those after a name. */
  list(page?: {
    readonly after?: string | undefined;
    readonly limit?: number | undefined;
  }): Promise<readonly ArtifactInfo[]>;
  get(name: string): Promise<ArtifactInfo>;
  exists(name: string): Promise<boolean>;
  save(
    name: string,
    content: Uint8Array | AsyncIterable<Uint8Array>,
    facts: Pick<ArtifactFacts, 'type' | 'mediaType'> & Partial<ArtifactFacts>,
  ): Promise<ArtifactInfo>;
  load(name: string): Promise<{ readonly info: ArtifactInfo; readonly chunks: AsyncIterable<Uint8Array> }>;
  delete(name: string): Promise<void>;
}

export interface ToolsApi {
  list(): Promise<readonly ToolInfo[]>;
  search(query: string, options?: { readonly limit?: number }): Promise<readonly ToolInfo[]>;
  describe(name: string): Promise<ToolInfo>;
  call(name: string, named: Record<string, PyValue>, options?: ToolCallOptions): Promise<PyValue>;
  /** Checks a definition in YAML and keeps it. `where` is what a message about a wrong one calls it, such as its file. */
  add(yaml: string, options?: { readonly replace?: boolean; readonly where?: string }): Promise<ToolInfo>;
  /** Takes a definition out of storage; false where it has none of that name. */
  remove(name: string): Promise<boolean>;
  problems(): Promise<readonly ToolProblem[]>;
}

export interface ToolCallOptions extends WorkOptions {
  readonly recipe?: string;
  readonly positional?: readonly PyValue[];
  /** Whoever calls it allows it: nobody else is asked. */
  readonly approved?: boolean;
}

export interface NamespacesApi {
  readonly tools: ToolsApi;
  readonly skills: SkillsApi;
  readonly artifacts: ArtifactsApi;
  readonly deps: DepsApi;
}
