/** A session in this process: one agent key, one kernel at a time, executions in the order of their calls. */

import { z } from 'zod';
import type { FilesRoot } from '../environments/files/session-files.ts';
import { runToEnd } from '../environments/kernel-host.ts';
import { CallbackEventSink, EventQueue, type EventSink } from '../kernel/event-queue.ts';
import type { KernelExecution } from '../kernel/kernel-execution.ts';
import type { CellOptions } from '../kernel-manager/kernel-cells.ts';
import type { KernelManager } from '../kernel-manager/kernel-manager.ts';
import { type KernelSlots, unlimitedSlots } from '../kernel-manager/kernel-slots.ts';
import { AsyncQueue } from '../lib/queues.ts';
import type { Capabilities, ExecutorKind } from '../protocol/enums.ts';
import { CellaError } from '../protocol/errors.ts';
import {
  type BackgroundEvent,
  type ExecutionEvent,
  giveInput,
  type ResultEvent,
} from '../protocol/execution-events.ts';
import {
  type Checkpoint,
  Completeness,
  type Completion,
  type HistoryEntry,
  Inspection,
  parseAnswer,
  parseCompletion,
  type Restored,
  Variable,
} from '../protocol/kernel-state.ts';
import type { Command, CommandResult } from '../protocol/process.ts';
import type { Terminal, TerminalOptions } from '../protocol/workspace-models.ts';
import type {
  ArtifactsApi,
  CheckpointOptions,
  DepsApi,
  ExecuteOptions,
  ForkOptions,
  RunOptions,
  SessionApi,
  SkillsApi,
  ToolsApi,
} from './api.ts';
import { dataFolder } from './data-folders.ts';
import { ExecutorConfig, locatePython, withExecutorAdvice } from './executor-config.ts';
import { type KernelManagerParts, makeKernelManager } from './make-kernel-manager.ts';
import { SessionNamespaces } from './session-namespaces.ts';
import {
  type CheckedOptions,
  checkCheckpointOptions,
  checkExecuteOptions,
  checkForkOptions,
  checkOptions,
  checkOwnKey,
  type ForkOverrides,
  type SessionOptions,
} from './session-options.ts';
import { openTerminal } from './session-terminal.ts';
import { acquireExecutor, acquireStorage, wakeSpares } from './shared-resources.ts';
import { StoredSession } from './stored-session.ts';

const OWN_WORKSPACE = 'workspace'; // in records, independent of the data folder's path
/** The most unread output to keep; the oldest is dropped. */
const MAX_BACKGROUND_BYTES = 1024 * 1024;
/** The most common options, which need no check. */
const NO_OPTIONS: RunOptions = {};
const Variables = z.array(Variable);

interface SessionParts extends Omit<KernelManagerParts, 'background' | 'handler'> {
  readonly releaseExecutor: () => void;
  readonly dataDir: string;
}

export class Session implements SessionApi {
  readonly #parts: SessionParts;
  readonly #options: CheckedOptions;
  readonly #manager: KernelManager;
  /** Output that belongs to no running cell. */
  readonly #background = new AsyncQueue<BackgroundEvent>({ dropAbove: MAX_BACKGROUND_BYTES });
  readonly #namespaces: SessionNamespaces;
  readonly #leaveWorkspace: () => void;
  #closing: Promise<void> | undefined;

  private constructor(parts: SessionParts) {
    this.#parts = parts;
    this.#leaveWorkspace = parts.executorConfig.enterWorkspace();
    this.#options = parts.options;
    this.#namespaces = new SessionNamespaces({
      ...parts.options,
      acquireStorage: () => acquireStorage(parts.options.storage, parts.dataDir),
      python: () => parts.executor.interpreter(),
      readerPython: () => locatePython(parts.options.python),
      packageFolder: parts.executorConfig.packageFolder,
      sandboxed: { run: (command) => this.#runBeside(command) },
      onPackages: (folder) => {
        parts.executorConfig.packages = folder;
      },
    });
    this.#manager = makeKernelManager({
      ...parts,
      background: (event, bytes) => this.#background.push(event, bytes),
      handler: () => this.#namespaces.handler(),
    });
  }

  /** Starts a kernel for this agent key. Resolves when the kernel is ready; rejects with the reason if it cannot start. */
  static async open(options: SessionOptions = {}): Promise<Session> {
    checkOwnKey(options?.agentKey);
    return await Session.openIn(unlimitedSlots, options);
  }

  /** For a pool: the kernel lives only while it has one of these slots. */
  static async openIn(slots: KernelSlots, options: SessionOptions): Promise<Session> {
    wakeSpares();
    const checked = checkOptions(options);
    return await withExecutorAdvice(checked.executor, () => Session.#openChecked(slots, checked));
  }

  static async #openChecked(slots: KernelSlots, checked: CheckedOptions): Promise<Session> {
    const dataDir = dataFolder(checked.dataDir);
    const opening = StoredSession.open(checked, dataDir);
    // Awaited below.
    opening.catch(() => {});
    const executorConfig = await ExecutorConfig.prepare(checked, dataDir).catch(async (error) => {
      // Resources opened in parallel must not keep the key locked.
      await opening.then(
        (stored) => stored.releaseLock(),
        () => {},
      );
      throw error;
    });
    const stored = await opening;
    if (stored.workspaceOf !== undefined) executorConfig.useWorkspaceOf(stored.workspaceOf, dataDir);
    stored.setCwd(executorConfig.customCwd ?? OWN_WORKSPACE);
    const { resource: executor, release: releaseExecutor } = acquireExecutor(executorConfig.executorChoice);
    const session = new Session({
      options: checked,
      executorConfig,
      executor,
      stored,
      slots,
      releaseExecutor,
      dataDir,
    });
    try {
      await session.#preparePackages();
      await session.#manager.start();
      if (checked.spares > 0) executor.spares.keep(executorConfig.spares(checked.spares));
      return session;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  get tools(): ToolsApi {
    return this.#namespaces.tools;
  }

  get skills(): SkillsApi {
    return this.#namespaces.skills;
  }

  get artifacts(): ArtifactsApi {
    return this.#namespaces.artifacts;
  }

  get deps(): DepsApi {
    return this.#namespaces.deps;
  }

  get agentKey(): string {
    return this.#options.agentKey;
  }

  /** The folder, on the host, that the code works in. */
  get cwd(): string {
    return this.#parts.executorConfig.cwd;
  }

  /** How the host reaches the files of that folder. */
  get files(): FilesRoot {
    return this.#parts.executorConfig.files;
  }

  /** The process, on the host, that everything in this session descends from; 0 if none is alive. */
  get pid(): number {
    return this.#manager.pid;
  }

  get executor(): ExecutorKind {
    return this.#parts.executorConfig.executorChoice.kind;
  }

  get sandboxed(): boolean {
    return this.executor !== 'in-process' && (this.executor === 'container' || this.#options.sandbox !== 'off');
  }

  /** What the executor supports. */
  get capabilities(): Capabilities {
    return this.#parts.executor.capabilities;
  }

  get closed(): boolean {
    return this.#closing !== undefined;
  }

  /** The number of executions so far, including those in earlier processes. Also the number of the last one. */
  get executions(): number {
    return this.#manager.executions;
  }

  /** How often the kernel was restarted after it died. */
  get recoveries(): number {
    return this.#manager.recoveries;
  }

  /**
   * Private memory of the kernel and of those that share its sandbox, in bytes; 0 if `counted` contains that sandbox already.
   */
  memory(counted: Set<unknown>): Promise<number> {
    return this.#manager.memory(counted);
  }

  /** The number of kernels ready for other keys with the same options. */
  get spares(): number {
    return this.#parts.executor.spares.count(this.#parts.executorConfig.specKey);
  }

  async run(code: string, options: RunOptions = NO_OPTIONS): Promise<ResultEvent> {
    let failure: { readonly error: unknown } | undefined;
    const sink = new CallbackEventSink<ExecutionEvent>((event) => {
      // Deferred, because the kernel that asks is still handling the request.
      if (event.type === 'input_request') queueMicrotask(() => void giveInput(this, event, options.onInput));
      try {
        options.onEvent?.(event);
      } catch (error) {
        // Errors of the caller's own callback are thrown when the code has ended.
        failure ??= { error };
      }
    });
    const result = await this.#execute(code, options, sink).result;
    if (failure) throw failure.error;
    return result;
  }

  stream(code: string, options: ExecuteOptions = NO_OPTIONS): AsyncIterable<ExecutionEvent> {
    const events = new EventQueue<ExecutionEvent>();
    this.#execute(code, options, events);
    return events;
  }

  async answerInput(id: number, text: string): Promise<void> {
    this.#manager.answerInput(id, text);
  }

  async cancelInput(id: number, reason = 'the request was cancelled'): Promise<void> {
    this.#manager.cancelInput(id, reason);
  }

  async interrupt(): Promise<boolean> {
    return this.#manager.interrupt();
  }

  async reset(): Promise<void> {
    await this.#kernel.reset();
  }

  async restart(): Promise<void> {
    await this.#kernel.restart();
  }

  async commit(): Promise<void> {
    await this.#kernel.commit();
  }

  async rollback(): Promise<void> {
    await this.#kernel.rollback();
  }

  async checkpoint(options: CheckpointOptions = {}): Promise<Checkpoint> {
    return await this.#kernel.addCheckpoint(checkCheckpointOptions(options));
  }

  async checkpoints(): Promise<readonly Checkpoint[]> {
    return await this.#kernel.checkpoints();
  }

  async restore(idOrName: string): Promise<Restored> {
    return await this.#kernel.restoreCheckpoint(idOrName);
  }

  async deleteCheckpoint(idOrName: string): Promise<void> {
    await this.#kernel.deleteCheckpoint(idOrName);
  }

  async undo(): Promise<void> {
    await this.#kernel.undo();
  }

  async save(): Promise<void> {
    await this.#kernel.save();
  }

  async hibernate(): Promise<void> {
    await this.#kernel.hibernate();
  }

  async fork(options: ForkOptions): Promise<Session> {
    checkOwnKey(options?.agentKey);
    return await this.forkIn(options);
  }

  /** For a pool, which has checked the key. `overrides` replace options of this session. */
  async forkIn(options: ForkOptions, overrides: ForkOverrides = {}): Promise<Session> {
    this.#checkOpen();
    const { agentKey, from } = checkForkOptions(options);
    if (!this.capabilities.liveFork) {
      const why = `The executor ${this.executor} cannot make a second kernel with the same memory`;
      throw new CellaError('CAPABILITY_MISSING', `${why}. Make a durable checkpoint instead.`);
    }
    const { session } = await this.#manager.fork(from, async () => {
      const fork = await this.#openFork({ ...this.#options, ...overrides, agentKey }, overrides.storage !== undefined);
      return { session: fork, manager: fork.#manager, close: () => fork.close() };
    });
    return session;
  }

  async #openFork(options: CheckedOptions, hasOwnStorage: boolean): Promise<Session> {
    const { slots, dataDir, executorConfig: mine } = this.#parts;
    await mine.checkFolders();
    const executorConfig = hasOwnStorage ? mine.forFork(options, dataDir) : mine;
    const stored = await StoredSession.open(options, dataDir, { workspaceOf: executorConfig.agentKey, empty: true });
    const { resource: executor, release: releaseExecutor } = acquireExecutor(executorConfig.executorChoice);
    return new Session({ options, executorConfig, executor, stored, slots, releaseExecutor, dataDir });
  }

  async complete(code: string, cursor = code.length): Promise<Completion> {
    const before = code.slice(0, cursor);
    const answer = await this.#kernel.introspect('complete', { code, cursor: [...before].length });
    return parseCompletion(answer, cursor);
  }

  async inspect(code: string, cursor = code.length): Promise<Inspection> {
    const before = code.slice(0, cursor);
    return parseAnswer(Inspection, await this.#kernel.introspect('inspect', { code, cursor: [...before].length }));
  }

  async isComplete(code: string): Promise<Completeness> {
    return parseAnswer(Completeness, await this.#kernel.introspect('isComplete', { code }));
  }

  async history(): Promise<readonly HistoryEntry[]> {
    return [...this.#parts.stored.history];
  }

  async variables(): Promise<readonly Variable[]> {
    return parseAnswer(Variables, await this.#kernel.introspect('variables', {}));
  }

  /** Starts a program on a terminal in the session's sandbox. Without a program, starts the shell. */
  async terminal(options: TerminalOptions = {}): Promise<Terminal> {
    this.#checkOpen();
    if (!this.capabilities.subprocesses) {
      throw new CellaError('CAPABILITY_MISSING', `The executor ${this.executor} has no terminals.`);
    }
    const { env, packages } = this.#parts.executorConfig;
    return await openTerminal(this.#manager, options, { env, packages });
  }

  background(): AsyncIterable<BackgroundEvent> {
    return this.#background;
  }

  /** Makes a live kernel use the currently configured packages. */
  async refreshPackages(): Promise<void> {
    this.#checkOpen();
    const folder = await this.#namespaces.currentPackages();
    this.#parts.executorConfig.packages = folder;
    await this.#kernel.usePackages(folder);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Ends the kernel without saving; earlier saves stay. For a key that another process has taken over. */
  async abandon(): Promise<void> {
    this.#closing ??= this.#close({ keep: false });
    await this.#closing;
  }

  /** With `keepFiles`, the caller removes the files. */
  async destroy({ keepFiles = false } = {}): Promise<void> {
    this.#closing ??= this.#close({ keep: false });
    await this.#closing;
    const { executorConfig, stored } = this.#parts;
    await stored.deleteAll(async (records) => {
      if (!keepFiles) await executorConfig.removeWorkspace(this.agentKey, records);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close({ keep = true } = {}): Promise<void> {
    try {
      await this.#manager.close({ save: keep });
    } finally {
      this.#background.end();
      this.#leaveWorkspace();
      this.#parts.releaseExecutor();
      await this.#namespaces.close();
      await this.#parts.stored.close(this.#manager.executions);
    }
  }

  /** Prepares the packages that kernels can import from the start. A session opens even if a package cannot be installed. */
  async #preparePackages(): Promise<void> {
    const { executorConfig, options } = this.#parts;
    if (options.syncDepsOnStart && (await this.#namespaces.mayUsePackages())) {
      const onProgress = (text: string) => options.onProgress?.(text);
      const { failed } = await this.#namespaces.deps.sync({ onProgress });
      for (const { requirement, reason } of failed) {
        const text = `${requirement} could not be installed: ${reason}`;
        if (options.onProgress) options.onProgress(text);
        else this.#background.push({ type: 'progress', task: 'deps.sync', text }, text.length);
      }
    } else if (executorConfig.hasPackages()) executorConfig.packages = await this.#namespaces.currentPackages();
  }

  /** Runs a program in the session's sandbox, next to its kernel. */
  async #runBeside(command: Command): Promise<CommandResult> {
    const environment = await this.#manager.environment();
    const { env, packages } = this.#parts.executorConfig;
    return await runToEnd(environment, { ...command, env: { ...env, ...command.env } }, packages);
  }

  #execute(code: string, options: ExecuteOptions, events: EventSink<ExecutionEvent>): KernelExecution {
    this.#checkOpen();
    if (typeof code !== 'string') throw new CellaError('INVALID_OPTIONS', `The code must be text, not ${typeof code}.`);
    return this.#manager.execute(code, this.#cellOptions(options), events);
  }

  #cellOptions(given: ExecuteOptions): CellOptions {
    const defaults = this.#options;
    const own = given === NO_OPTIONS ? NO_OPTIONS : checkExecuteOptions(given);
    return {
      settings: {
        timeoutMs: own.timeoutMs ?? defaults.timeoutMs,
        inputTimeoutMs: own.inputTimeoutMs ?? defaults.inputTimeoutMs,
        graceMs: defaults.graceMs,
        outputLimitBytes: defaults.outputLimitBytes,
      },
      transaction: own.transaction ?? defaults.transaction,
      signal: own.signal,
    };
  }

  /** The kernel manager, unless the session is closed. */
  get #kernel(): KernelManager {
    this.#checkOpen();
    return this.#manager;
  }

  #checkOpen(): void {
    if (this.#closing) throw new CellaError('SESSION_CLOSED', 'The session was closed.');
  }
}
