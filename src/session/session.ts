/** A session in this process: one agent key, one kernel at a time, executions in the order they came. */

import type { FilesRoot } from '../environments/files/session-files.ts';
import type { Executor } from '../environments/kernel-host.ts';
import { runToEnd } from '../environments/run-to-end.ts';
import { EventListener, EventQueue } from '../kernel/event-queue.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { KernelManager } from '../kernel-manager/kernel-manager.ts';
import { type KernelSlots, unlimitedSlots } from '../kernel-manager/kernel-slots.ts';
import type { Command, CommandResult } from '../protocol/command.ts';
import type { Capabilities, ExecutorKind } from '../protocol/enums.ts';
import { CellaError } from '../protocol/errors.ts';
import type { BackgroundEvent, ExecutionEvent, InputRequestEvent, ResultEvent } from '../protocol/execution-events.ts';
import type { Terminal, TerminalOptions } from '../protocol/workspace-models.ts';
import type {
  Checkpoint,
  CheckpointOptions,
  Completeness,
  Completion,
  ExecuteOptions,
  ForkOptions,
  HistoryEntry,
  Inspection,
  Restored,
  RunOptions,
  SessionApi,
  Variable,
} from './api.ts';
import type { ArtifactsApi, DepsApi, SkillsApi, ToolsApi } from './api-namespaces.ts';
import { BackgroundLog } from './background.ts';
import { Checkpoints } from './checkpoints.ts';
import { dataFolder } from './data-folder.ts';
import { Executions, NO_OPTIONS } from './executions.ts';
import { borrowExecutor, wakeSpares } from './executors.ts';
import { parseCompleteness, parseCompletion, parseInspection, parseVariables } from './introspection.ts';
import { makeKeeper } from './keeping.ts';
import { Launch } from './launch.ts';
import { Ledger } from './ledger.ts';
import { Namespaces } from './namespaces.ts';
import {
  type CheckedOptions,
  checkForkOptions,
  checkOptions,
  checkOwnKey,
  type ForkOthers,
  type SessionOptions,
} from './options.ts';
import { locatePython } from './python.ts';
import { storageFor } from './storages.ts';
import { openTerminal } from './terminal.ts';
import { tellingWaysOut } from './ways-out.ts';

/** In records: wherever the data folder is. */
const OWN_WORKSPACE = 'workspace';
const NOBODY = 'input() was called, but nobody is there to answer: pass `onInput` to run(), or read stream()';

/** What a session is made of. */
interface Parts {
  readonly options: CheckedOptions;
  readonly launch: Launch;
  readonly executor: Executor;
  readonly ledger: Ledger;
  readonly slots: KernelSlots;
  readonly giveBack: () => void;
  readonly dataDir: string;
}

export class Session implements SessionApi {
  readonly #parts: Parts;
  readonly #options: CheckedOptions;
  readonly #keeper: KernelManager;
  readonly #checkpoints: Checkpoints;
  readonly #executions: Executions;
  readonly #background = new BackgroundLog();
  readonly #namespaces: Namespaces;
  readonly #left: () => void;
  #closing: Promise<void> | undefined;

  private constructor(parts: Parts) {
    this.#parts = parts;
    this.#left = parts.launch.enter();
    this.#options = parts.options;
    this.#namespaces = new Namespaces({
      ...parts.options,
      borrowStorage: () => storageFor(parts.options.storage, parts.dataDir),
      python: () => parts.executor.interpreter(),
      readerPython: () => locatePython(parts.options.python),
      packageFolder: parts.launch.packageFolder,
      sandboxed: { run: (command) => this.#runBeside(command) },
      onPackages: (folder) => {
        parts.launch.packages = folder;
      },
    });
    this.#keeper = makeKeeper({
      ...parts,
      background: (event, bytes) => this.#background.push(event, bytes),
      handler: () => this.#namespaces.handler(),
    });
    this.#checkpoints = new Checkpoints(this.#keeper, parts.ledger.archive);
    this.#executions = new Executions(parts.options, this.#keeper, parts.ledger, () => this.#checkOpen());
  }

  /** Starts a kernel for this agent key, or says why it cannot. Resolves when the kernel is ready. */
  static async open(options: SessionOptions = {}): Promise<Session> {
    wakeSpares();
    checkOwnKey(options?.agentKey);
    return await Session.#openAwake(unlimitedSlots, options);
  }

  /** For a pool: its kernel lives only while it has one of these slots. */
  static async openIn(slots: KernelSlots, options: SessionOptions): Promise<Session> {
    wakeSpares();
    return await Session.#openAwake(slots, options);
  }

  static async #openAwake(slots: KernelSlots, options: SessionOptions): Promise<Session> {
    const checked = checkOptions(options);
    return await tellingWaysOut(checked.executor, () => Session.#openChecked(slots, checked));
  }

  static async #openChecked(slots: KernelSlots, checked: CheckedOptions): Promise<Session> {
    const dataDir = dataFolder(checked.dataDir);
    const opening = Ledger.open(checked, dataDir);
    // Told below, where it is waited for.
    opening.catch(() => {});
    const launch = await Launch.prepare(checked, dataDir).catch(async (error) => {
      // What was opened beside it must not keep the key.
      await opening.then(
        (ledger) => ledger.abandon(),
        () => {},
      );
      throw error;
    });
    const ledger = await opening;
    if (ledger.workspaceOf !== undefined) launch.share(ledger.workspaceOf, dataDir);
    ledger.beginIn(launch.elsewhere ?? OWN_WORKSPACE);
    const { executor, giveBack } = borrowExecutor(launch.recipe);
    const session = new Session({ options: checked, launch, executor, ledger, slots, giveBack, dataDir });
    try {
      await session.#preparePackages();
      await session.#keeper.ensureRunning();
      session.#keeper.becomeIdle();
      if (checked.spares > 0) executor.spares.keep(launch.spares(checked.spares));
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
    return this.#parts.launch.cwd;
  }

  /** How files of that folder are reached. */
  get files(): FilesRoot {
    return this.#parts.launch.files;
  }

  /** The process, on the host, that everything in this session descends from; 0 where none lives. */
  get pid(): number {
    return this.#keeper.pid;
  }

  get executor(): ExecutorKind {
    return this.#parts.launch.recipe.kind;
  }

  get sandboxed(): boolean {
    return this.executor !== 'in-process' && (this.executor === 'container' || this.#options.sandbox !== 'off');
  }

  /** What its executor can do. */
  get capabilities(): Capabilities {
    return this.#parts.executor.capabilities;
  }

  get closed(): boolean {
    return this.#closing !== undefined;
  }

  /** How many executions it has had, also in earlier processes: the number of the last one. */
  get executions(): number {
    return this.#keeper.executions;
  }

  /** How often its kernel was brought back after it had died. */
  get recoveries(): number {
    return this.#keeper.recoveries;
  }

  /** Private memory of its kernel, in bytes, and of those that share its sandbox; 0 where that was counted before. */
  memory(counted: Set<unknown>): Promise<number> {
    return this.#keeper.memory(counted);
  }

  /** Kernels that are ready for other keys with the same options. */
  get spares(): number {
    return this.#parts.executor.spares.count(this.#parts.launch.shape);
  }

  async run(code: string, options: RunOptions = NO_OPTIONS): Promise<ResultEvent> {
    let failure: { readonly error: unknown } | undefined;
    const listener = new EventListener<ExecutionEvent>((event) => {
      // Later, for the kernel that asks is in the middle of handling the question.
      if (event.type === 'input_request') queueMicrotask(() => void this.#answer(event, options.onInput));
      try {
        options.onEvent?.(event);
      } catch (error) {
        // The caller's own mistake is the caller's to hear of, when the code is done.
        failure ??= { error };
      }
    });
    const result = await this.#executions.enqueue(code, options, listener).result;
    if (failure) throw failure.error;
    return result;
  }

  stream(code: string, options: ExecuteOptions = NO_OPTIONS): AsyncIterable<ExecutionEvent> {
    const events = new EventQueue<ExecutionEvent>();
    this.#executions.enqueue(code, options, events);
    return events;
  }

  async answerInput(id: number, text: string): Promise<void> {
    this.#asked(id).answerInput(id, text);
  }

  async cancelInput(id: number, reason = 'the request was cancelled'): Promise<void> {
    this.#asked(id).cancelInput(id, reason);
  }

  async interrupt(): Promise<boolean> {
    return this.#keeper.kernel?.interrupt() ?? false;
  }

  reset(): Promise<void> {
    return this.#alone(() => this.#keeper.reset());
  }

  restart(): Promise<void> {
    return this.#alone(() => this.#keeper.restart());
  }

  commit(): Promise<void> {
    return this.#inTurn(() => this.#keeper.commit());
  }

  rollback(): Promise<void> {
    return this.#inTurn(() => this.#keeper.rollback());
  }

  checkpoint(options: CheckpointOptions = {}): Promise<Checkpoint> {
    return this.#inTurn(() => this.#checkpoints.make(options));
  }

  async checkpoints(): Promise<readonly Checkpoint[]> {
    this.#checkOpen();
    return await this.#checkpoints.list();
  }

  restore(idOrName: string): Promise<Restored> {
    return this.#inTurn(() => this.#checkpoints.restore(idOrName));
  }

  deleteCheckpoint(idOrName: string): Promise<void> {
    return this.#inTurn(() => this.#checkpoints.delete(idOrName));
  }

  undo(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#keeper.undo();
    });
  }

  async save(): Promise<void> {
    this.#checkOpen();
    await this.#keeper.save();
  }

  async hibernate(): Promise<void> {
    this.#checkOpen();
    await this.#keeper.hibernate();
  }

  async fork(options: ForkOptions): Promise<Session> {
    checkOwnKey(options?.agentKey);
    return await this.forkIn(options);
  }

  /** For a pool, which has looked at the key. `others` are what the fork has instead of what this session has. */
  forkIn(options: ForkOptions, others: ForkOthers = {}): Promise<Session> {
    return this.#inTurn(async () => {
      const { agentKey, from } = checkForkOptions(options);
      if (!this.capabilities.liveFork) {
        const why = `The executor ${this.executor} cannot make a second kernel with the same memory`;
        throw new CellaError('CAPABILITY_MISSING', `${why}. Make a durable checkpoint instead.`);
      }
      const mine = this.#options;
      const forked: CheckedOptions = { ...mine, ...others, agentKey };
      const moment = from === undefined ? undefined : this.#checkpoints.findLive(from);
      const { slots, dataDir } = this.#parts;
      const launch = others.storage ? this.#parts.launch.twin(forked, dataDir) : this.#parts.launch;
      const ledger = await Ledger.open(forked, dataDir, { workspaceOf: launch.agentKey, empty: true });
      const { executor, giveBack } = borrowExecutor(launch.recipe);
      const session = new Session({ options: forked, launch, executor, ledger, slots, giveBack, dataDir });
      try {
        await session.#keeper.reserve();
        const { shared, link } = await this.#keeper.fork(moment);
        await session.#keeper.adopt(shared, link, this.#keeper.executions);
        return session;
      } catch (error) {
        await session.close();
        throw error;
      }
    });
  }

  async complete(code: string, cursor = code.length): Promise<Completion> {
    const before = code.slice(0, cursor);
    const answer = await this.#ask('complete', { code, cursor: [...before].length });
    return parseCompletion(answer, cursor);
  }

  async inspect(code: string, cursor = code.length): Promise<Inspection> {
    return parseInspection(await this.#ask('inspect', { code, cursor: [...code.slice(0, cursor)].length }));
  }

  async isComplete(code: string): Promise<Completeness> {
    return parseCompleteness(await this.#ask('isComplete', { code }));
  }

  async history(): Promise<readonly HistoryEntry[]> {
    return [...this.#parts.ledger.history];
  }

  async variables(): Promise<readonly Variable[]> {
    return parseVariables(await this.#ask('variables', {}));
  }

  /** A program on a terminal in the sandbox of this session, beside its kernel; the shell where none is named. */
  async terminal(options: TerminalOptions = {}): Promise<Terminal> {
    this.#checkOpen();
    if (!this.capabilities.subprocesses) {
      throw new CellaError('CAPABILITY_MISSING', `The executor ${this.executor} has no terminals.`);
    }
    const { env, packages } = this.#parts.launch;
    return await openTerminal(this.#keeper, options, { env, packages });
  }

  background(): AsyncIterable<BackgroundEvent> {
    return this.#background.read();
  }

  /** Has a live kernel find the packages as they are configured now, whoever has changed them. */
  async refreshPackages(): Promise<void> {
    this.#checkOpen();
    const folder = await this.#namespaces.currentPackages();
    this.#parts.launch.packages = folder;
    if (this.pid === 0) return;
    await this.#inTurn(async () =>
      (await this.#keeper.ensureRunning()).introspect('usePackages', { folder: folder ?? null }),
    );
  }

  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  /** Ends the kernel and saves nothing; what was saved before stays. For whoever has lost the agent to another. */
  async abandon(): Promise<void> {
    this.#closing ??= this.#end({ keep: false });
    await this.#closing;
  }

  /** `keepFiles`: for whoever removes them. */
  async destroy({ keepFiles = false } = {}): Promise<void> {
    this.#closing ??= this.#end({ keep: false });
    await this.#closing;
    const { launch, ledger } = this.#parts;
    await ledger.forget(async (records) => {
      if (!keepFiles) await launch.remove(this.agentKey, records);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #end({ keep = true } = {}): Promise<void> {
    const busy = this.#executions.pending > 0;
    try {
      // What runs is ended; what is idle is saved.
      if (busy) await this.#keeper.abandon();
      await this.#keeper.queue.idle();
      await this.#keeper.close(keep && !busy);
    } finally {
      this.#background.close();
      this.#left();
      this.#parts.giveBack();
      await this.#namespaces.close();
      await this.#parts.ledger.close(this.#keeper.executions);
    }
  }

  /** What kernels can import from their beginning. What cannot be installed is told, and keeps no session from opening. */
  async #preparePackages(): Promise<void> {
    const { launch, options } = this.#parts;
    if (options.syncDepsOnStart && (await this.#namespaces.mayUsePackages())) {
      const onProgress = (text: string) => options.onProgress?.(text);
      const { failed } = await this.#namespaces.deps.sync({ onProgress });
      for (const { requirement, reason } of failed) {
        const text = `${requirement} could not be installed: ${reason}`;
        options.onProgress?.(text);
        this.#background.push({ type: 'progress', task: 'deps.sync', text }, text.length);
      }
    } else if (launch.hasPackages()) launch.packages = await this.#namespaces.currentPackages();
  }

  /** A program in the sandbox of this session, beside its kernel. */
  async #runBeside(command: Command): Promise<CommandResult> {
    const enclosure = await this.#keeper.environment();
    const { env, packages } = this.#parts.launch;
    return await runToEnd(enclosure, { ...command, env: { ...env, ...command.env } }, packages);
  }

  /** Ends what runs, and comes before what waits. */
  async #alone(work: () => Promise<void>): Promise<void> {
    this.#checkOpen();
    try {
      await this.#keeper.preempt(work);
    } finally {
      this.#keeper.becomeIdle();
    }
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    this.#checkOpen();
    try {
      return await this.#keeper.queue.run(work);
    } finally {
      this.#keeper.becomeIdle();
    }
  }

  async #answer(request: InputRequestEvent, onInput: RunOptions['onInput']): Promise<void> {
    try {
      if (!onInput) await this.cancelInput(request.id, NOBODY);
      else await this.answerInput(request.id, await onInput(request));
    } catch (error) {
      const gone = error instanceof CellaError && error.code === 'INPUT_NOT_PENDING';
      if (!gone) await this.cancelInput(request.id, `the answer failed: ${error}`).catch(() => {}); // answered meanwhile
    }
  }

  #asked(id: number): Kernel {
    const kernel = this.#keeper.kernel;
    if (!kernel) throw new CellaError('INPUT_NOT_PENDING', `No input() waits for an answer with the number ${id}.`);
    return kernel;
  }

  #ask(method: string, params: Record<string, unknown>): Promise<unknown> {
    this.#checkOpen();
    if (this.#executions.pending > 0) {
      throw new CellaError('KERNEL_BUSY', 'The kernel is running code; ask again when it is done.');
    }
    return this.#inTurn(async () => (await this.#keeper.ensureRunning()).introspect(method, params));
  }

  #checkOpen(): void {
    if (this.#closing) throw new CellaError('SESSION_CLOSED', 'The session was closed.');
  }
}
