/**
 * One agent key's kernel over time: starts it, runs cells, saves, rolls back, hibernates and closes it.
 *
 * `queue` keeps all of that in order. The caller enters it first; `hibernate`, `close`, `preempt` and saves enter it by
 * themselves, and `ensureRunning` needs no turn.
 */

import type { KernelHost } from '../environments/kernel-host.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';
import type { KernelExecution } from '../kernel/kernel-execution.ts';
import { SerialQueue } from '../lib/serial-queue.ts';
import { CellaError } from '../protocol/errors.ts';
import type { LoadedPayload } from '../protocol/kernel-payloads.ts';
import type { Manifest } from '../protocol/kernel-state.ts';
import type { TransactionPolicy } from '../protocol/session-info.ts';
import type { Clock } from '../storage/contract.ts';
import { Autosave, forkForSave, saveBeforeEnd, saveCheckpoint } from './autosave.ts';
import { type AttachedProcess, EMPTY, KernelProcess, type KernelProcessOptions, LAST_SAVE } from './kernel-process.ts';
import type { SlotHolder } from './kernel-slots.ts';
import { Recovery, type RecoveryOptions, sessionClosed } from './recovery.ts';
import { KernelRollback } from './rollback.ts';
import { type SharedEnvironment, takeSnapshot } from './shared-environment.ts';
import type { LiveCheckpoint } from './snapshots.ts';

interface KernelManagerOptions extends KernelProcessOptions, RecoveryOptions {
  readonly clock: Clock;
  /** How long after a cell its names are saved, if nothing else runs. */
  readonly saveAfterMs: number;
  /** Told when a save is written. */
  readonly onSaved?: (manifest: Manifest) => void;
}

export class KernelManager implements SlotHolder {
  readonly queue = new SerialQueue();
  readonly #options: KernelManagerOptions;
  readonly #process: KernelProcess;
  readonly #autosave: Autosave;
  readonly #recovery: Recovery;
  readonly #rollback: KernelRollback;
  readonly #cells: CellRunner;
  #idleSince = 0;

  constructor(options: KernelManagerOptions) {
    this.#options = options;
    const { durableCheckpoints, saveAfterMs, slots, onSaved, clock } = options;
    const { queue } = this;
    const kernelProcess = new KernelProcess(options, this);
    const autosave = new Autosave({
      afterMs: saveAfterMs,
      durableCheckpoints,
      // A kernel is not idle meanwhile: those who wait for a place have not been able to count on it.
      fork: (forked) =>
        queue.run(() => forkForSave(kernelProcess, autosave, forked)).finally(() => slots.hibernateIdle()),
      onSaved,
    });
    const recovery = new Recovery(options, kernelProcess, autosave);
    const rollback = new KernelRollback(kernelProcess, autosave, clock);
    this.#process = kernelProcess;
    this.#autosave = autosave;
    this.#recovery = recovery;
    this.#rollback = rollback;
    this.#cells = new CellRunner({ kernelProcess, recovery, rollback, autosave, queue });
  }

  get kernel(): Kernel | undefined {
    return this.#process.kernel;
  }

  /** On the host; 0 where none lives. */
  get pid(): number {
    const enclosure = this.#process.shared?.environment;
    return enclosure?.alive ? enclosure.pid : 0;
  }

  /** Executions that were had, also by earlier processes. */
  get executions(): number {
    return this.#process.executions;
  }

  countExecution(): number {
    return ++this.#process.executions;
  }

  get idleSince(): number | undefined {
    const { kernel, attached } = this.#process;
    // Without storage it cannot be put to sleep.
    const canSleep = this.#options.durableCheckpoints !== undefined && this.queue.free && kernel?.idle && !attached.any;
    return canSleep ? this.#idleSince : undefined;
  }

  /** How often the kernel was brought back after it had died. */
  get recoveries(): number {
    return this.#recovery.total;
  }

  get checkpoints(): readonly LiveCheckpoint[] {
    return this.#process.checkpoints.all;
  }

  get transactionOpen(): boolean {
    return this.#process.transaction.open !== undefined;
  }

  /** The kernel that lives, started anew where the last one ended. */
  ensureRunning(): Promise<Kernel> {
    return this.#recovery.ensureRunning();
  }

  /** Where the kernel lives: for programs that run beside it. */
  async environment(): Promise<KernelHost> {
    await this.ensureRunning();
    return this.#process.requireShared.environment;
  }

  /** Has a program stay beside the kernel, until the kernel is reset, put to sleep or closed. */
  async attachProcess<G extends AttachedProcess>(enter: (enclosure: KernelHost) => Promise<G>): Promise<G> {
    const left = () => {
      if (!this.#recovery.closed) this.becomeIdle();
    };
    return await this.#process.attached.attach(async () => await enter(await this.environment()), left);
  }

  /** Runs a cell in its turn. What it returns is over when the transaction is. */
  execute(execution: KernelExecution, policy: TransactionPolicy): Promise<void> {
    return this.#cells.execute(execution, policy);
  }

  async commit(): Promise<void> {
    // Death has decided: the next kernel begins with what was before.
    if (this.transactionOpen && this.kernel?.dead) await this.ensureRunning();
    this.#rollback.commit();
  }

  rollback(): Promise<void> {
    return this.#rollback.rollback();
  }

  /** Keeps this moment of the kernel, to go back to or to fork from. */
  async addCheckpoint(name?: string): Promise<LiveCheckpoint> {
    return await this.#rollback.addCheckpoint(await this.ensureRunning(), name);
  }

  findCheckpoint(idOrName: string): LiveCheckpoint | undefined {
    return this.#process.checkpoints.find(idOrName);
  }

  removeCheckpoint(checkpoint: LiveCheckpoint): void {
    this.#process.checkpoints.remove(checkpoint);
  }

  async restoreCheckpoint(checkpoint: LiveCheckpoint): Promise<void> {
    await this.#rollback.restore(checkpoint);
    this.#recovery.resetCrashes();
  }

  /** To before the last cell. Gives the number of executions that had been had by then. */
  undo(): Promise<number> {
    return this.#rollback.undo();
  }

  /** A fork: another kernel with the same memory, for another manager, in the same environment. */
  async fork(from: LiveCheckpoint | undefined): Promise<{ shared: SharedEnvironment; link: KernelConnection }> {
    const kernel = await this.ensureRunning();
    const shared = this.#process.requireShared;
    const snapshot = from?.snapshot ?? (await takeSnapshot(kernel, shared));
    const link = await shared.launch({ env: {}, from: { twin: snapshot, keep: from !== undefined }, reseed: true });
    return { shared, link };
  }

  /** Makes sure that another kernel may live. */
  reserve(): Promise<void> {
    return this.#process.reserve();
  }

  /** Takes over a kernel that was branched off another. */
  async adopt(shared: SharedEnvironment, link: KernelConnection, executions: number): Promise<void> {
    const kernelProcess = this.#process;
    kernelProcess.startFrom = EMPTY;
    kernelProcess.executions = executions;
    kernelProcess.useEnvironment(shared);
    await kernelProcess.attach(link, undefined, { fromSnapshot: true });
    // What the key had before is nothing that this kernel may recover.
    await this.#autosave.deleteSaves();
    this.#autosave.changed();
  }

  /** Ends what runs, and comes before all that waits: for `reset` and `restart`. */
  preempt(work: () => Promise<void>): Promise<void> {
    return this.#cells.preempt(work);
  }

  /** Clears every name, in the same enclosure. */
  async reset(): Promise<void> {
    this.#process.attached.killAll();
    // A crash before the next save must not bring back what was cleared.
    await this.#autosave.deleteSaves();
    await this.#clear();
  }

  /** Ends the enclosure and starts another. */
  async restart(): Promise<void> {
    await this.#autosave.deleteSaves();
    this.#recovery.resetCrashes();
    this.#process.startFrom = EMPTY;
    await this.#process.release('the kernel was restarted');
    await this.ensureRunning();
    this.#autosave.changed();
  }

  /** Replaces every name by those of a durable checkpoint, in a fresh kernel. */
  async load(manifest: Manifest): Promise<LoadedPayload> {
    const durableCheckpoints = this.#options.durableCheckpoints;
    if (!durableCheckpoints) throw new CellaError('CHECKPOINT_NOT_FOUND', 'This session has no storage.');
    await durableCheckpoints.check(manifest);
    await this.#clear();
    const loaded = await durableCheckpoints.read(await this.ensureRunning(), manifest);
    this.#autosave.changed();
    return loaded;
  }

  /** Saves what has changed, without a place of its own in the queue: for a kernel that has nothing to do. */
  save(): Promise<void> {
    return this.#autosave.saveNow();
  }

  /** A durable checkpoint of this moment. */
  async saveCheckpoint(purpose: { name?: string }): Promise<Manifest> {
    const kernel = await this.ensureRunning();
    return await saveCheckpoint(kernel, this.#autosave, { execution: this.executions, ...purpose });
  }

  /** In its turn: saves and ends the kernel; the next call brings it back. */
  hibernate(): Promise<void> {
    return this.queue.run(async () => {
      if (!this.kernel || this.kernel.dead) return;
      if (!this.#options.durableCheckpoints) {
        throw new CellaError('INVALID_OPTIONS', 'This session has no storage (persist: false) to sleep in.');
      }
      await this.#saveLast();
      this.#process.startFrom = LAST_SAVE;
      await this.#process.release('the kernel was put to sleep');
    });
  }

  /** Called after each turn: the kernel may have nothing to do. */
  becomeIdle(): void {
    this.#idleSince = performance.now();
    this.#options.slots.hibernateIdle();
  }

  /** `keep`: what has changed is saved first. */
  async close(keep: boolean): Promise<void> {
    if (this.#recovery.closed) return;
    await this.#recovery.settled();
    // In its turn: a save that begins by itself would keep the kernel from saving, and would end with it.
    try {
      await this.queue.run(async () => {
        if (keep && this.kernel && !this.kernel.dead) await this.#saveLast();
      });
    } finally {
      // Whatever became of the save, no process stays.
      this.#recovery.close();
      this.#autosave.close();
      await this.#process.release('the session was closed');
    }
  }

  /** Ends what runs at once. Only `close` comes after it. */
  async abandon(): Promise<void> {
    this.#recovery.abandon();
    this.#process.expectDeath();
    await this.kernel?.close();
  }

  /** Private memory of the kernels in its environment, in bytes; 0 if they were counted before. Forks share an environment. */
  async memory(counted: Set<unknown>): Promise<number> {
    const enclosure = this.#process.shared?.environment;
    if (counted.has(enclosure)) return 0;
    counted.add(enclosure);
    const usage = await enclosure?.memoryUsage();
    return Object.values(usage?.kernels ?? {}).reduce((total, bytes) => total + bytes, 0);
  }

  async #clear(): Promise<void> {
    this.#recovery.resetCrashes();
    this.#process.startFrom = EMPTY;
    this.#rollback.dropOpen();
    await this.#process.kill();
    await this.ensureRunning();
    this.#autosave.changed();
  }

  async #saveLast(): Promise<void> {
    await this.#rollback.rollbackOpen();
    await saveBeforeEnd(this.#process, this.#autosave);
  }
}

interface CellRunnerParts {
  readonly kernelProcess: KernelProcess;
  readonly recovery: Recovery;
  readonly rollback: KernelRollback;
  readonly autosave: Autosave;
  readonly queue: SerialQueue;
}

/** A kernel that a cell may begin in, and the twin to go back to, where there is one. */
interface ReadyKernel {
  readonly kernel: Kernel;
  readonly snapshot: number | undefined;
}

class CellRunner {
  readonly #parts: CellRunnerParts;
  /** How many wait to reset or restart the kernel: nothing begins before them. */
  #pendingPreempts = 0;

  constructor(parts: CellRunnerParts) {
    this.#parts = parts;
  }

  /** What it returns is over when the transaction is. */
  async execute(execution: KernelExecution, policy: TransactionPolicy): Promise<void> {
    const { kernelProcess, recovery } = this.#parts;
    // With its sandbox a transaction ends too, though the death of the kernel may be a moment from being known.
    if (kernelProcess.transaction.open !== undefined && kernelProcess.shared?.environment.alive === false) {
      await kernelProcess.kernel?.died;
      await recovery.ensureRunning();
    }
    if (kernelProcess.transaction.open !== undefined) {
      throw new CellaError('TRANSACTION_OPEN', 'An explicit transaction waits to be decided.');
    }
    const keeps = policy !== 'commit_always' || kernelProcess.checkpoints.limits.undo > 0;
    const kernel = keeps || !kernelProcess.kernel?.idle ? await recovery.ensureRunning() : kernelProcess.kernel;
    const ready = keeps ? await this.#prepare(kernel, policy) : { kernel, snapshot: undefined };
    await this.#run(execution, policy, ready);
  }

  /** Ends what runs, and comes before all that waits. */
  async preempt(work: () => Promise<void>): Promise<void> {
    const { kernelProcess, queue } = this.#parts;
    let begun = false;
    this.#pendingPreempts++;
    const turn = queue.runNext(() => {
      begun = true;
      this.#pendingPreempts--;
      return work();
    });
    if (begun) return await turn;
    await Promise.all([turn, kernelProcess.kill()]);
  }

  async #run(execution: KernelExecution, policy: TransactionPolicy, { kernel, snapshot }: ReadyKernel): Promise<void> {
    const { kernelProcess, recovery, rollback, autosave } = this.#parts;
    if (recovery.over) throw sessionClosed();
    if (this.#pendingPreempts > 0) {
      if (snapshot !== undefined) kernelProcess.dropSnapshot(snapshot);
      throw new CellaError('KERNEL_DIED', 'The kernel was reset or restarted before the cell began.');
    }
    autosave.cellStarted();
    if (snapshot !== undefined) {
      execution.settle = (result) => rollback.settleTransaction(snapshot, policy, result);
      kernelProcess.transaction.begin();
    }
    try {
      const { death } = await kernel.execute(execution);
      if (!death) recovery.resetCrashes();
    } finally {
      kernelProcess.transaction.end();
      autosave.changed();
    }
  }

  /** A kernel that turns out to have died before the cell began is brought back first, once: nothing has run yet. */
  async #prepare(kernel: Kernel, policy: TransactionPolicy): Promise<ReadyKernel> {
    const snapshot = await this.#snapshotBefore(kernel, policy).catch((error: unknown) => ({ error }));
    if (kernel.dead && this.#pendingPreempts === 0) {
      const next = await this.#parts.recovery.ensureRunning();
      return { kernel: next, snapshot: await this.#snapshotBefore(next, policy) };
    }
    if (typeof snapshot === 'object') throw snapshot.error;
    return { kernel, snapshot };
  }

  async #snapshotBefore(kernel: Kernel, policy: TransactionPolicy): Promise<number | undefined> {
    const { requireShared: home } = this.#parts.kernelProcess;
    if (policy !== 'commit_always') return await takeSnapshot(kernel, home);
    // For undo alone: a kernel that cannot be forked runs the cell all the same.
    return await takeSnapshot(kernel, home).catch(() => undefined);
  }
}
