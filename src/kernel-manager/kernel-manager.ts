/**
 * Manages one agent key's kernel over time: starts it, runs cells, saves, rolls back, hibernates and closes it.
 *
 * It locks itself: operations that start, replace or end the kernel wait in one queue. Operations that only need a live kernel
 * (`environment`, `attachProcess`, input answers, `interrupt`) do not wait while there is one.
 */

import type { KernelHost } from '../environments/kernel-host.ts';
import type { EventSink } from '../kernel/event-queue.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';
import type { KernelExecution } from '../kernel/kernel-execution.ts';
import { giveWay } from '../lib/event-loop.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ExecutionEvent } from '../protocol/execution-events.ts';
import type { Checkpoint, Manifest, Restored } from '../protocol/kernel-state.ts';
import type { Clock } from '../storage/contract.ts';
import { Autosave, forkForSave, saveBeforeEnd } from './autosave.ts';
import { type CellOptions, ExecutionQueue, type FinishedCells, KernelCells } from './kernel-cells.ts';
import { KernelCheckpoints, KernelRollback } from './kernel-checkpoints.ts';
import {
  type AttachedProcess,
  EMPTY,
  KernelProcess,
  type KernelProcessOptions,
  LAST_SAVE,
  type SharedEnvironment,
  sessionClosed,
  takeSnapshot,
} from './kernel-process.ts';
import type { SlotOwner } from './kernel-slots.ts';
import { Recovery, type RecoveryOptions } from './recovery.ts';

interface KernelManagerOptions extends KernelProcessOptions, RecoveryOptions {
  readonly clock: Clock;
  /** How many executions may wait behind the one that runs. */
  readonly queueLimit: number;
  /** How long after a cell its variables are saved, if nothing else runs. */
  readonly saveAfterMs: number;
  /** Called for each save that was written. */
  readonly onSaved?: (manifest: Manifest) => void;
  /** Gets each finished cell, before its caller gets the result. */
  readonly history: FinishedCells;
}

/** What a fork is for. It is closed if the fork fails. */
interface ForkTarget {
  readonly manager: KernelManager;
  close(): Promise<void>;
}

export class KernelManager implements SlotOwner {
  readonly #options: KernelManagerOptions;
  readonly #queue: ExecutionQueue;
  readonly #process: KernelProcess;
  readonly #autosave: Autosave;
  readonly #recovery: Recovery;
  readonly #rollback: KernelRollback;
  readonly #checkpoints: KernelCheckpoints;
  readonly #cells: KernelCells;
  #idleSince = 0;

  constructor(options: KernelManagerOptions) {
    this.#options = options;
    const { durableCheckpoints, saveAfterMs, queueLimit, slots, onSaved, history, clock } = options;
    const queue = new ExecutionQueue(() => queueLimit);
    const kernelProcess = new KernelProcess(options, this);
    const autosave = new Autosave({
      afterMs: saveAfterMs,
      durableCheckpoints,
      // During the save the kernel is not idle and keeps its slot, so waiting callers are served afterwards.
      fork: (forked) =>
        queue.run(() => forkForSave(kernelProcess, autosave, forked)).finally(() => slots.hibernateIdle()),
      onSaved,
    });
    const recovery = new Recovery(options, kernelProcess, autosave);
    const rollback = new KernelRollback(kernelProcess, autosave, clock);
    const parts = { kernelProcess, recovery, rollback, autosave, queue };
    this.#queue = queue;
    this.#process = kernelProcess;
    this.#autosave = autosave;
    this.#recovery = recovery;
    this.#rollback = rollback;
    this.#checkpoints = new KernelCheckpoints({ ...parts, durable: durableCheckpoints, clear: () => this.#clear() });
    this.#cells = new KernelCells({ ...parts, history, onIdle: () => this.#becomeIdle() });
  }

  /** The pid on the host; 0 if no kernel is alive. */
  get pid(): number {
    const environment = this.#process.shared?.environment;
    return environment?.alive ? environment.pid : 0;
  }

  /** The number of executions, including those in earlier processes. */
  get executions(): number {
    return this.#process.executions;
  }

  get idleSince(): number | undefined {
    const { kernel, attached } = this.#process;
    // Without storage it cannot hibernate.
    const canHibernate =
      this.#options.durableCheckpoints !== undefined && this.#queue.free && kernel?.idle && !attached.any;
    return canHibernate ? this.#idleSince : undefined;
  }

  /** How often the kernel was restarted after it died. */
  get recoveries(): number {
    return this.#recovery.total;
  }

  /** Resolves when a kernel is ready. */
  async start(): Promise<void> {
    await this.#locked(() => this.#recovery.ensureRunning());
  }

  /** Where the kernel runs. Starts it if needed. */
  async environment(): Promise<KernelHost> {
    await this.#ensureRunning();
    return this.#process.requireShared.environment;
  }

  /** Runs a program next to the kernel, until the kernel is reset, hibernated or closed. */
  async attachProcess<P extends AttachedProcess>(start: (environment: KernelHost) => Promise<P>): Promise<P> {
    const onExit = () => {
      if (!this.#process.isClosed) this.#becomeIdle();
    };
    return await this.#process.attached.attach(() => this.environment(), start, onExit);
  }

  /** Runs a cell in its turn, at once if the kernel is idle. Throws `KERNEL_BUSY` if too many wait. */
  execute(code: string, options: CellOptions, events: EventSink<ExecutionEvent>): KernelExecution {
    return this.#cells.submit(code, options, events);
  }

  /** False if no code runs. */
  interrupt(): boolean {
    return this.#process.kernel?.interrupt() ?? false;
  }

  answerInput(id: number, text: string): void {
    this.#askingKernel(id).inputs.answerInput(id, text);
  }

  cancelInput(id: number, reason: string): void {
    this.#askingKernel(id).inputs.cancelInput(id, reason);
  }

  /** Asks an idle kernel about its variables. Throws `KERNEL_BUSY` while cells run or wait. */
  async introspect(method: string, params: Record<string, unknown>): Promise<unknown> {
    if (this.#queue.pending > 0) {
      throw new CellaError('KERNEL_BUSY', 'The kernel is running code; try again when the code has ended.');
    }
    return await this.#ask(method, params);
  }

  /** Makes a live kernel import packages from this folder, after the waiting cells. */
  async usePackages(folder: string | undefined): Promise<void> {
    if (this.pid > 0) await this.#ask('usePackages', { folder: folder ?? null });
  }

  commit(): Promise<void> {
    return this.#locked(async () => {
      // The death of the kernel has rolled the transaction back: the next kernel starts from before it.
      if (this.#process.transaction.open !== undefined && this.#process.kernel?.dead) {
        await this.#recovery.ensureRunning();
      }
      this.#rollback.commit();
    });
  }

  rollback(): Promise<void> {
    return this.#locked(() => this.#rollback.rollback());
  }

  /** Goes back to before the last cell. */
  undo(): Promise<void> {
    return this.#locked(() => this.#rollback.undo());
  }

  addCheckpoint(options: { readonly name?: string | undefined; readonly durable: boolean }): Promise<Checkpoint> {
    return this.#locked(() => this.#checkpoints.add(options));
  }

  /** Oldest first. */
  checkpoints(): Promise<Checkpoint[]> {
    return this.#checkpoints.list();
  }

  restoreCheckpoint(idOrName: string): Promise<Restored> {
    return this.#locked(() => this.#checkpoints.restore(idOrName));
  }

  deleteCheckpoint(idOrName: string): Promise<void> {
    return this.#locked(() => this.#checkpoints.delete(idOrName));
  }

  /** Starts another kernel with the same memory, in the same environment, for the manager that `open` returns. */
  fork<T extends ForkTarget>(from: string | undefined, open: () => Promise<T>): Promise<T> {
    return this.#locked(async () => {
      const checkpoint = from === undefined ? undefined : this.#checkpoints.findLive(from);
      const child = await open();
      try {
        await child.manager.#process.reserve();
        const kernel = await this.#recovery.ensureRunning();
        const shared = this.#process.requireShared;
        const snapshot = checkpoint?.snapshot ?? (await takeSnapshot(kernel, shared));
        const keep = checkpoint !== undefined;
        const link = await shared.launch({ env: {}, from: { snapshot, keep }, reseed: true });
        await child.manager.#adopt(shared, link, this.executions);
        return child;
      } catch (error) {
        await child.close();
        throw error;
      }
    });
  }

  /** Clears every variable, in the same environment. Ends running code and goes before all waiting cells. */
  reset(): Promise<void> {
    return this.#preempt(async () => {
      this.#process.attached.killAll();
      // A crash before the next save must not restore what was cleared.
      await this.#autosave.deleteSaves();
      await this.#clear();
    });
  }

  /** Ends the environment and starts another. Ends running code and goes before all waiting cells. */
  restart(): Promise<void> {
    return this.#preempt(async () => {
      await this.#autosave.deleteSaves();
      this.#process.crashes = 0;
      await this.#process.release('the kernel was restarted', { next: EMPTY });
      await this.#recovery.ensureRunning();
      this.#autosave.changed();
    });
  }

  /** Saves what has changed. */
  save(): Promise<void> {
    return this.#autosave.saveNow();
  }

  /** Saves and ends the kernel; the next call starts it from that save. */
  hibernate(): Promise<void> {
    return this.#inQueue(async () => {
      const { kernel } = this.#process;
      if (!kernel || kernel.dead) return;
      if (!this.#options.durableCheckpoints) {
        throw new CellaError('INVALID_OPTIONS', 'This session has no storage (persist: false) to hibernate in.');
      }
      await this.#saveBeforeEnd();
      await this.#process.release('the kernel was hibernated', { next: LAST_SAVE });
    });
  }

  /** Ends the kernel. With `save`, changes are saved first, unless code runs or waits: then it ends at once. */
  async close({ save }: { readonly save: boolean }): Promise<void> {
    if (this.#process.isClosed) return;
    const busy = this.#queue.pending > 0;
    if (busy) {
      this.#process.abandon();
      this.#process.expectDeath();
      await this.#process.kernel?.close();
    }
    // Queued, because an automatic save that starts meanwhile would block the last save and end with the kernel. Later calls in
    // the queue find the session closed.
    await this.#queue.run(async () => {
      const { kernel } = this.#process;
      try {
        if (save && !busy && kernel && !kernel.dead) await this.#saveBeforeEnd();
      } finally {
        // Leaves no process behind, even if the save failed.
        this.#process.close();
        this.#autosave.close();
        await this.#process.release('the session was closed');
      }
    });
  }

  /**
   * Private memory of the kernels in its environment, in bytes; 0 if `counted` contains the environment already, which forks
   * share.
   */
  async memory(counted: Set<unknown>): Promise<number> {
    const environment = this.#process.shared?.environment;
    if (counted.has(environment)) return 0;
    counted.add(environment);
    const usage = await environment?.memoryUsage();
    return Object.values(usage?.kernels ?? {}).reduce((total, bytes) => total + bytes, 0);
  }

  /** Takes over a kernel that was forked from another. */
  async #adopt(shared: SharedEnvironment, link: KernelConnection, executions: number): Promise<void> {
    this.#process.executions = executions;
    this.#process.useEnvironment(shared);
    await this.#process.attach(link, { fromSnapshot: true });
    // This kernel must not restore earlier saves of the key.
    await this.#autosave.deleteSaves();
    this.#autosave.changed();
  }

  /** Returns at once if a kernel is alive, because its code may be waiting for this. Otherwise starts one through the queue. */
  async #ensureRunning(): Promise<void> {
    const { kernel, shared } = this.#process;
    if (this.#process.isOver) throw sessionClosed();
    if (shared && kernel && !kernel.dead) return;
    // A cell that starts the kernel may keep running for hours.
    await (this.#recovery.starting ?? this.#queue.runNext(() => this.#recovery.ensureRunning()));
  }

  async #clear(): Promise<Kernel> {
    this.#process.crashes = 0;
    this.#rollback.dropOpen();
    await this.#process.kill(EMPTY);
    const kernel = await this.#recovery.ensureRunning();
    this.#autosave.changed();
    return kernel;
  }

  async #saveBeforeEnd(): Promise<void> {
    await this.#rollback.rollbackOpen();
    await saveBeforeEnd(this.#process, this.#autosave);
  }

  #ask(method: string, params: Record<string, unknown>): Promise<unknown> {
    return this.#locked(async () => (await this.#recovery.ensureRunning()).requests.introspect(method, params));
  }

  #askingKernel(id: number): Kernel {
    const { kernel } = this.#process;
    if (!kernel) throw new CellaError('INPUT_NOT_PENDING', `No input() is waiting for an answer with the id ${id}.`);
    return kernel;
  }

  async #locked<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await this.#inQueue(work);
    } finally {
      this.#becomeIdle();
    }
  }

  /** Thousands of calls may have waited behind a cell, and each may fail at once: other work gets its turn between them. */
  #inQueue<T>(work: () => Promise<T>): Promise<T> {
    return this.#queue.run(async () => {
      await giveWay();
      return await work();
    });
  }

  async #preempt(work: () => Promise<void>): Promise<void> {
    try {
      await this.#cells.preempt(work);
    } finally {
      this.#becomeIdle();
    }
  }

  /** The kernel may have nothing to do: callers who wait for a slot may take its slot. */
  #becomeIdle(): void {
    this.#idleSince = performance.now();
    this.#options.slots.hibernateIdle();
  }
}
