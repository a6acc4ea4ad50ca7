/**
 * Keeps one agent's kernel: what a session asks of it, one thing at a time. Each kind of work has a file of its own:
 *
 *   life       the kernel that lives, its quarters, and its death     (everything else goes through it)
 *   recovery   starts it, and brings back what it had (waking)        cells     runs cells, each in its transaction
 *   history    takes it back in time: transactions, undo, moments     saver     saves it beside its work (saving)
 *
 * `turns` sees to it that only one of them is at work with the kernel. Whoever calls takes a turn first; `hibernate`,
 * `close`, `overtake` and saves take theirs themselves, and `live` needs none.
 */

import type { KernelHost } from '../environments/kernel-host.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';
import type { KernelExecution } from '../kernel/kernel-execution.ts';
import { CellaError } from '../protocol/errors.ts';
import type { LoadedPayload } from '../protocol/kernel-payloads.ts';
import type { Manifest } from '../protocol/kernel-state.ts';
import type { TransactionPolicy } from '../protocol/session-info.ts';
import type { Clock } from '../storage/contract.ts';
import { Cells } from './cells.ts';
import type { Guest } from './guests.ts';
import { History } from './history.ts';
import { ASLEEP, EMPTY, Life, type LifeOptions } from './life.ts';
import type { Moment } from './moments.ts';
import type { Quarters } from './quarters.ts';
import { Recovery, type RecoveryOptions } from './recovery.ts';
import { Saver } from './saver.ts';
import { copyToSave, saveCheckpoint, saveInPlace } from './saving.ts';
import type { Holder } from './slots.ts';
import { Turns } from './turns.ts';
import { freeze } from './twins.ts';

export interface KeeperOptions extends LifeOptions, RecoveryOptions {
  readonly clock: Clock;
  /** How long after a cell its names are saved, if nothing else runs. */
  readonly saveAfterMs: number;
  /** Told when a save is written. */
  readonly onSaved?: (manifest: Manifest) => void;
}

export class Keeper implements Holder {
  readonly turns = new Turns();
  readonly #options: KeeperOptions;
  readonly #life: Life;
  readonly #saver: Saver;
  readonly #recovery: Recovery;
  readonly #history: History;
  readonly #cells: Cells;
  #idleSince = 0;

  constructor(options: KeeperOptions) {
    this.#options = options;
    const { archive, saveAfterMs, slots, onSaved, clock } = options;
    const { turns } = this;
    const life = new Life(options, this);
    const saver = new Saver({
      afterMs: saveAfterMs,
      archive,
      // A kernel is not idle meanwhile: those who wait for a place have not been able to count on it.
      freeze: (frozen) => turns.take(() => copyToSave(life, saver, frozen)).finally(() => slots.makeRoom()),
      onSaved,
    });
    const recovery = new Recovery(options, life, saver);
    const history = new History(life, saver, clock);
    this.#life = life;
    this.#saver = saver;
    this.#recovery = recovery;
    this.#history = history;
    this.#cells = new Cells({ life, recovery, history, saver, turns });
  }

  get kernel(): Kernel | undefined {
    return this.#life.kernel;
  }

  /** On the host; 0 where none lives. */
  get pid(): number {
    const enclosure = this.#life.quarters?.enclosure;
    return enclosure?.alive ? enclosure.pid : 0;
  }

  /** Executions that were had, also by earlier processes. */
  get executions(): number {
    return this.#life.executions;
  }

  countExecution(): number {
    return ++this.#life.executions;
  }

  get idleSince(): number | undefined {
    const { kernel, guests } = this.#life;
    // Without storage it cannot be put to sleep.
    const canSleep = this.#options.archive !== undefined && this.turns.free && kernel?.idle && !guests.any;
    return canSleep ? this.#idleSince : undefined;
  }

  /** How often the kernel was brought back after it had died. */
  get recoveries(): number {
    return this.#recovery.total;
  }

  get moments(): readonly Moment[] {
    return this.#life.moments.all;
  }

  get undecided(): boolean {
    return this.#life.transaction.open !== undefined;
  }

  /** The kernel that lives, started anew where the last one ended. */
  live(): Promise<Kernel> {
    return this.#recovery.live();
  }

  /** Where the kernel lives: for programs that run beside it. */
  async enclosure(): Promise<KernelHost> {
    await this.live();
    return this.#life.home.enclosure;
  }

  /** Has a program stay beside the kernel, until the kernel is reset, put to sleep or closed. */
  async host<G extends Guest>(enter: (enclosure: KernelHost) => Promise<G>): Promise<G> {
    const left = () => {
      if (!this.#recovery.closed) this.rest();
    };
    return await this.#life.guests.welcome(async () => await enter(await this.enclosure()), left);
  }

  /** Runs a cell in its turn. What it returns is over when the transaction is. */
  execute(execution: KernelExecution, policy: TransactionPolicy): Promise<void> {
    return this.#cells.execute(execution, policy);
  }

  async commit(): Promise<void> {
    // Death has decided: the next kernel begins with what was before.
    if (this.undecided && this.kernel?.dead) await this.live();
    this.#history.commit();
  }

  rollback(): Promise<void> {
    return this.#history.rollback();
  }

  /** Keeps this moment of the kernel, to go back to or to fork from. */
  async keepMoment(name?: string): Promise<Moment> {
    return await this.#history.keep(await this.live(), name);
  }

  findMoment(idOrName: string): Moment | undefined {
    return this.#life.moments.find(idOrName);
  }

  removeMoment(moment: Moment): void {
    this.#life.moments.remove(moment);
  }

  async restoreMoment(moment: Moment): Promise<void> {
    await this.#history.restore(moment);
    this.#recovery.forgive();
  }

  /** To before the last cell. Gives the number of executions that had been had by then. */
  undo(): Promise<number> {
    return this.#history.undo();
  }

  /** Another kernel with the same memory, for another keeper: it lives in the same quarters. */
  async branch(from: Moment | undefined): Promise<{ quarters: Quarters; link: KernelConnection }> {
    const kernel = await this.live();
    const quarters = this.#life.home;
    const twin = from?.twin ?? (await freeze(kernel, quarters));
    const link = await quarters.launch({ env: {}, from: { twin, keep: from !== undefined }, reseed: true });
    return { quarters, link };
  }

  /** Makes sure that another kernel may live. */
  reserve(): Promise<void> {
    return this.#life.reserve();
  }

  /** Takes over a kernel that was branched off another. */
  async adopt(quarters: Quarters, link: KernelConnection, executions: number): Promise<void> {
    const life = this.#life;
    life.next = EMPTY;
    life.executions = executions;
    life.moveTo(quarters);
    await life.welcome(link, undefined, { fromTwin: true });
    // What the key had before is nothing that this kernel may recover.
    await this.#saver.forgetAll();
    this.#saver.ended();
  }

  /** Ends what runs, and comes before all that waits: for `reset` and `restart`. */
  overtake(work: () => Promise<void>): Promise<void> {
    return this.#cells.overtake(work);
  }

  /** Clears every name, in the same enclosure. */
  async reset(): Promise<void> {
    this.#life.guests.evict();
    // A crash before the next save must not bring back what was cleared.
    await this.#saver.forgetAll();
    await this.#clear();
  }

  /** Ends the enclosure and starts another. */
  async restart(): Promise<void> {
    await this.#saver.forgetAll();
    this.#recovery.forgive();
    this.#life.next = EMPTY;
    await this.#life.leave('the kernel was restarted');
    await this.live();
    this.#saver.ended();
  }

  /** Replaces every name by those of a durable checkpoint, in a fresh kernel. */
  async load(manifest: Manifest): Promise<LoadedPayload> {
    const archive = this.#options.archive;
    if (!archive) throw new CellaError('CHECKPOINT_NOT_FOUND', 'This session has no storage.');
    await archive.check(manifest);
    await this.#clear();
    const loaded = await archive.read(await this.live(), manifest);
    this.#saver.ended();
    return loaded;
  }

  /** Saves what has changed, without a place of its own in the queue: for a kernel that has nothing to do. */
  save(): Promise<void> {
    return this.#saver.now();
  }

  /** A durable checkpoint of this moment. */
  async saveAs(purpose: { name?: string }): Promise<Manifest> {
    const kernel = await this.live();
    return await saveCheckpoint(kernel, this.#saver, { execution: this.executions, ...purpose });
  }

  /** In its turn: saves and ends the kernel; the next call brings it back. */
  hibernate(): Promise<void> {
    return this.turns.take(async () => {
      if (!this.kernel || this.kernel.dead) return;
      if (!this.#options.archive) {
        throw new CellaError('INVALID_OPTIONS', 'This session has no storage (persist: false) to sleep in.');
      }
      await this.#saveLast();
      this.#life.next = ASLEEP;
      await this.#life.leave('the kernel was put to sleep');
    });
  }

  /** Called after each turn: the kernel may have nothing to do. */
  rest(): void {
    this.#idleSince = performance.now();
    this.#options.slots.makeRoom();
  }

  /** `keep`: what has changed is saved first. */
  async close(keep: boolean): Promise<void> {
    if (this.#recovery.closed) return;
    await this.#recovery.settled();
    // In its turn: a save that begins by itself would keep the kernel from saving, and would end with it.
    try {
      await this.turns.take(async () => {
        if (keep && this.kernel && !this.kernel.dead) await this.#saveLast();
      });
    } finally {
      // Whatever became of the save, no process stays.
      this.#recovery.close();
      this.#saver.close();
      await this.#life.leave('the session was closed');
    }
  }

  /** Ends what runs at once. Only `close` comes after it. */
  async abandon(): Promise<void> {
    this.#recovery.abandon();
    this.#life.expectEnd();
    await this.kernel?.close();
  }

  /** Private memory of the kernels in its quarters, in bytes; 0 where they were counted before. Forks share quarters. */
  async memory(counted: Set<unknown>): Promise<number> {
    const enclosure = this.#life.quarters?.enclosure;
    if (counted.has(enclosure)) return 0;
    counted.add(enclosure);
    const usage = await enclosure?.memoryUsage();
    return Object.values(usage?.kernels ?? {}).reduce((total, bytes) => total + bytes, 0);
  }

  async #clear(): Promise<void> {
    this.#recovery.forgive();
    this.#life.next = EMPTY;
    this.#history.dropUndecided();
    await this.#life.end();
    await this.live();
    this.#saver.ended();
  }

  async #saveLast(): Promise<void> {
    await this.#history.rollBackUndecided();
    await saveInPlace(this.#life, this.#saver);
  }
}
