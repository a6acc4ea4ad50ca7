/** The interfaces of a session: code, state, checkpoints, its four namespaces and its coding agent. Local and remote sessions implement them. */

import type { AgentLogEvent } from '../protocol/agent-events.ts';
import type { Capabilities, ExecutorKind } from '../protocol/enums.ts';
import type { BackgroundEvent, ExecutionEvent, InputRequestEvent, ResultEvent } from '../protocol/execution-events.ts';
import type {
  Checkpoint,
  Completeness,
  Completion,
  HistoryEntry,
  Inspection,
  Restored,
  Variable,
} from '../protocol/kernel-state.ts';
import type {
  ArtifactFacts,
  ArtifactInfo,
  DepsResult,
  DepsStatus,
  NewSkill,
  Skill,
  SkillInfo,
  SkillProblem,
  ToolInfo,
  ToolProblem,
} from '../protocol/namespace-models.ts';
import type { PermissionDecision, PermissionInfo } from '../protocol/permission.ts';
import type { PyValue } from '../protocol/py-values.ts';
import type { TransactionPolicy } from '../protocol/session-info.ts';
import type { AgentName, CodingAgent, PermissionMode, Transcript, TurnInfo } from '../protocol/turn.ts';

export interface ExecuteOptions {
  /** Interrupts the code after this long, and kills it after a grace period. 0 means no limit. */
  readonly timeoutMs?: number;
  /** Cancels a queued execution, interrupts a running one. */
  readonly signal?: AbortSignal;
  /** How long one input() may wait for its answer. */
  readonly inputTimeoutMs?: number;
  /** Whether the changes of the code are kept or rolled back. */
  readonly transaction?: TransactionPolicy;
}

export interface CheckpointOptions {
  /** A live checkpoint of the same name is replaced. */
  readonly name?: string;
  /** In storage: for another process, another machine, or after a reboot. */
  readonly durable?: boolean;
}

export interface ForkOptions {
  /** The key of the new kernel. */
  readonly agentKey: string;
  /** The live checkpoint to fork from, instead of the current state. */
  readonly from?: string;
  /** At a server: deletes the session that has this key. Without a server, its variables are always replaced. */
  readonly replace?: boolean;
}

export interface RunOptions extends ExecuteOptions {
  /** Answers input() and getpass(). Without it, they raise EOFError at once. Throwing here raises EOFError too. */
  readonly onInput?: (request: InputRequestEvent) => string | Promise<string>;
  readonly onEvent?: (event: ExecutionEvent) => void;
}

export interface SessionApi extends NamespacesApi, AsyncDisposable {
  readonly agentKey: string;
  /** Where its code runs. */
  readonly executor: ExecutorKind;
  /** False if nothing isolates its code. */
  readonly sandboxed: boolean;
  /** What its executor supports. The rest fails with `CAPABILITY_MISSING`. */
  readonly capabilities: Capabilities;
  /** Runs code to its end. Exceptions in the code are results, not rejections. */
  run(code: string, options?: RunOptions): Promise<ResultEvent>;
  /** Runs code and yields its events, the result last. A slow reader slows the code. */
  stream(code: string, options?: ExecuteOptions): AsyncIterable<ExecutionEvent>;
  answerInput(id: number, text: string): Promise<void>;
  cancelInput(id: number, reason?: string): Promise<void>;
  /** Raises KeyboardInterrupt in the running code. False if nothing runs. */
  interrupt(): Promise<boolean>;
  /** Clears every variable, in the same sandbox. Ends what runs. */
  reset(): Promise<void>;
  /** Ends the sandbox and starts another: variables, processes and /tmp are gone, the workspace stays. */
  restart(): Promise<void>;
  /** Keeps the changes of an explicit transaction. */
  commit(): Promise<void>;
  /** Rolls an explicit transaction back. */
  rollback(): Promise<void>;
  checkpoint(options?: CheckpointOptions): Promise<Checkpoint>;
  /** Oldest first. */
  checkpoints(): Promise<readonly Checkpoint[]>;
  /** Goes back: every variable is as it was then, and later ones are gone. */
  restore(idOrName: string): Promise<Restored>;
  deleteCheckpoint(idOrName: string): Promise<void>;
  /** Another kernel with the same memory. Both continue independently, in the same sandbox and workspace. */
  fork(options: ForkOptions): Promise<SessionApi>;
  /** Goes back to before the last cell that was not undone. Needs the option `undo`. */
  undo(): Promise<void>;
  /** Saves changed variables to storage now, instead of after a pause. */
  save(): Promise<void>;
  /** Saves the variables and ends the kernel. The next call resumes it. */
  hibernate(): Promise<void>;
  complete(code: string, cursor?: number): Promise<Completion>;
  inspect(code: string, cursor?: number): Promise<Inspection>;
  isComplete(code: string): Promise<Completeness>;
  history(): Promise<readonly HistoryEntry[]>;
  variables(): Promise<readonly Variable[]>;
  /** Output of threads, tasks and child processes after their cell has ended, and automatic saves. For one reader at a time. */
  background(): AsyncIterable<BackgroundEvent>;
  /** Ends the session. Variables are saved first, unless code still runs. */
  close(): Promise<void>;
  /** Ends the session and deletes everything of its key: variables, checkpoints, history and workspace. */
  destroy(): Promise<void>;
}

export interface PromptOptions {
  /** Defaults to the agent of the last turn, or else `claude`. */
  readonly agent?: AgentName;
  readonly mode?: PermissionMode;
  readonly model?: string;
  /** The agent's own tools that it may use in this turn; all by default. */
  readonly tools?: readonly string[];
  /** The limit of the turn once it runs; 0 means none. */
  readonly timeoutMs?: number;
  /** `refuse`: fails with `TURN_RUNNING` if another turn runs. By default the prompt is queued. */
  readonly onBusy?: 'queue' | 'refuse';
  readonly profile?: string;
  /** Stops the turn. */
  readonly signal?: AbortSignal;
}

/** An event of one turn. The last is its `turn_ended`. */
export type TurnEvent = AgentLogEvent & { readonly seq: number; readonly at: number };

export interface AgentApi {
  /** The coding agents, and whether they can be prompted here. */
  agents(): Promise<readonly CodingAgent[]>;
  /** Starts a runner ahead of a prompt. False if there is no room for one. */
  warmAgent(agent: AgentName): Promise<boolean>;
  /** Iterate over it for the events, or await `turn` for the outcome. `turn` also resolves if the turn failed. */
  prompt(prompt: string, options?: PromptOptions): PromptedTurn;
  /** Stops the running turn, also while a permission is pending. Returns the turns that were stopped. */
  stop(options?: { readonly turn?: string; readonly all?: boolean }): Promise<readonly string[]>;
  transcript(options?: { readonly conversation?: string }): Promise<Transcript>;
  /** Permission requests, oldest first. */
  permissions(options?: { readonly state?: 'pending' | 'resolved' }): Promise<readonly PermissionInfo[]>;
  /** Throws `ALREADY_RESOLVED` if it was decided before; `details` contain the earlier decision and its user. */
  decidePermission(id: string, decision: PermissionDecision): Promise<PermissionInfo>;
}

export interface PromptedTurn extends AsyncIterable<TurnEvent> {
  readonly turn: Promise<TurnInfo>;
}

/** Options for work that may take long. */
export interface WorkOptions {
  readonly signal?: AbortSignal;
  /** Called with one line of progress. */
  readonly onProgress?: (text: string) => void;
}

export interface DepsApi {
  list(): Promise<readonly string[]>;
  /** Installs nothing. */
  status(): Promise<DepsStatus>;
  add(requirements: string | readonly string[], options?: WorkOptions): Promise<DepsResult>;
  remove(name: string, options?: WorkOptions): Promise<DepsResult>;
  /** Installs the configured packages that are missing. */
  sync(options?: WorkOptions): Promise<DepsResult>;
}

export interface SkillsApi {
  list(): Promise<readonly SkillInfo[]>;
  get(name: string): Promise<Skill>;
  search(query: string, options?: { readonly limit?: number }): Promise<readonly SkillInfo[]>;
  create(skill: NewSkill, options?: { readonly replace?: boolean }): Promise<SkillInfo>;
  delete(name: string): Promise<void>;
  /** Files that are not valid skills, with the reason. */
  problems(): Promise<readonly SkillProblem[]>;
}

export interface ArtifactsApi {
  /** Sorted by name: all, or at most `limit` after a name. */
  list(page?: {
    readonly after?: string | undefined;
    readonly limit?: number | undefined;
    /** Ends the page once its entries reach this many characters of JSON. */
    readonly enough?: number | undefined;
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

/** The tools of a user. A call needs a session. */
export interface ToolCatalogApi {
  list(): Promise<readonly ToolInfo[]>;
  search(query: string, options?: { readonly limit?: number }): Promise<readonly ToolInfo[]>;
  describe(name: string): Promise<ToolInfo>;
  /** Checks and stores a definition in YAML. `where` names its source, such as a file, in error messages. */
  create(yaml: string, options?: { readonly replace?: boolean; readonly where?: string }): Promise<ToolInfo>;
  /** Deletes a stored definition. `TOOL_NOT_FOUND` if there is none of that name. */
  delete(name: string): Promise<void>;
  problems(): Promise<readonly ToolProblem[]>;
}

export interface ToolsApi extends ToolCatalogApi {
  call(name: string, named: Record<string, PyValue>, options?: ToolCallOptions): Promise<PyValue>;
}

export interface ToolCallOptions extends WorkOptions {
  readonly recipe?: string;
  readonly positional?: readonly PyValue[];
  /** The caller approves the call, so nobody else is asked. */
  readonly approved?: boolean;
}

/** What belongs to a user, independent of sessions. */
export interface UserNamespacesApi {
  readonly tools: ToolCatalogApi;
  readonly skills: SkillsApi;
  readonly artifacts: ArtifactsApi;
  readonly deps: DepsApi;
}

export interface NamespacesApi extends UserNamespacesApi {
  readonly tools: ToolsApi;
}
