/** Keeps one agent's kernel: starts it, takes it back in time, saves it, and brings it back after it died or slept. */

import { randomUUID } from 'node:crypto';
import type { Enclosure } from '../executors/contract.ts';
import type { Execution } from '../kernel/execution.ts';
import type { CallHandler } from '../kernel/host-calls.ts';
import { Kernel } from '../kernel/kernel.ts';
import type { KernelLink } from '../kernel/link.ts';
import type { LostName, Manifest } from '../protocol/checkpoint.ts';
import { CellaError } from '../protocol/errors.ts';
import type {
  Death,
  DisplayEvent,
  Notice,
  OutputEvent,
  ProgressEvent,
  ResultEvent,
  Woken,
} from '../protocol/events.ts';
import type { LoadedPayload } from '../protocol/kernel.ts';
import type { TransactionPolicy } from '../protocol/transaction.ts';
import type { Clock } from '../storage/contract.ts';
import type { Archive } from './archive.ts';
import { type Guest, Guests } from './guests.ts';
import { type Moment, type MomentLimits, Moments } from './moments.ts';
import { type Place, Quarters } from './quarters.ts';
import { Saver } from './saver.ts';
import type { Holder, Slot, Slots } from './slots.ts';
import { Turns } from './turns.ts';

export interface KeeperOptions {
  readonly agentKey: string;
  readonly place: Place;
  /** Where names are saved; without it they end with their kernel. */
  readonly archive?: Archive;
  readonly moments: MomentLimits;
  /** Told of hosts that the code may not reach. */
  readonly onDenied: Enclosure['onDenied'];
  readonly background: (event: OutputEvent | DisplayEvent | ProgressEvent, bytes: number) => void;
  /** Carries out the calls of one kernel; asked for each kernel that begins. */
  readonly handler?: (() => CallHandler) | undefined;
  readonly clock: Clock;
  /** How long after a cell its names are saved, if nothing else runs. */
  readonly saveAfterMs: number;
  readonly slots: Slots;
  /** Told of the process that the kernel descends from, each time that there is another. */
  readonly onLive?: (pid: number) => void;
  /** Told when a save is written. */
  readonly onSaved?: (manifest: Manifest) => void;
}

/** Failures of a last save that are no fault of the storage. */
const LOST_BY_THE_CODE: ReadonlySet<string> = new Set([
  'SAVE_FAILED',
  'KERNEL_DIED',
  'KERNEL_OUT_OF_MEMORY',
  'KERNEL_CPU_LIMIT',
  'KERNEL_PROTOCOL',
]);
/** How long a twin may take to become a kernel. */
const WAKE_MS = 10_000;
const ENDED = 'the sandbox it lived in has ended';
/** Recoveries in a row without a cell that ended. */
const MOST_RECOVERIES = 3;

/** A kernel that a cell may begin in, and the twin to go back to, where there is one. */
interface Ready {
  readonly kernel: Kernel;
  readonly twin: number | undefined;
}

export class Keeper implements Holder {
  /** One thing at a time with the kernel. */
  readonly turns = new Turns();
  readonly #options: KeeperOptions;
  readonly #moments: Moments;
  readonly #saver: Saver;
  readonly #guests = new Guests();
  #quarters: Quarters | undefined;
  #moveOut: () => Promise<void> = async () => {};
  #kernel: Kernel | undefined;
  #starting: Promise<Kernel> | undefined;
  #slot: Slot | undefined;
  #idleSince = 0;
  #livePid = 0;
  #saves: Promise<Manifest[]> = Promise.resolve([]);
  #generation = 0;
  #executions = 0;
  /** The twin of an explicit transaction that is not decided. */
  #undecided: number | undefined;
  /** Whether the cell that runs has a twin to go back to. */
  #deciding = false;
  /** A death that the next kernel must make up for. */
  #cause: Death | undefined;
  #recoveries = 0;
  #recovered = 0;
  /** A death that was asked for is no news. */
  #expectedEnd = false;
  /** How many wait to reset or restart the kernel: nothing begins before them. */
  #overtakers = 0;
  /** Whether the next kernel begins with the last save. */
  #asleep = true;
  /** It is about to be closed: whatever has not begun does not begin any more. */
  #abandoned = false;
  #closed = false;

  constructor(options: KeeperOptions) {
    this.#options = options;
    this.#moments = new Moments(options.moments, (twin) => this.#quarters?.enclosure.drop(twin));
    this.#saver = new Saver({
      afterMs: options.saveAfterMs,
      archive: options.archive,
      // A kernel is not idle meanwhile: those who wait for a place have not been able to count on it.
      freeze: (frozen) => this.#freezeForSave(frozen).finally(() => options.slots.makeRoom()),
      onSaved: options.onSaved,
    });
  }

  get kernel(): Kernel | undefined {
    return this.#kernel;
  }

  /** On the host; 0 where none lives. */
  get pid(): number {
    const enclosure = this.#quarters?.enclosure;
    return enclosure?.alive ? enclosure.pid : 0;
  }

  /** Executions that were had, also by earlier processes. */
  get executions(): number {
    return this.#executions;
  }

  countExecution(): number {
    return ++this.#executions;
  }

  get idleSince(): number | undefined {
    // Without storage it cannot be put to sleep.
    const canSleep = this.#options.archive !== undefined && this.turns.free && this.#kernel?.idle && !this.#guests.any;
    return canSleep ? this.#idleSince : undefined;
  }

  /** How often the kernel was brought back after it had died. */
  get recoveries(): number {
    return this.#recovered;
  }

  get moments(): readonly Moment[] {
    return this.#moments.all;
  }

  /** The kernel that lives, started anew where the last one ended. */
  live(): Promise<Kernel> {
    if (this.#closed || this.#abandoned) return Promise.reject(sessionClosed());
    if (!this.#starting && this.#kernel && !this.#kernel.dead) return Promise.resolve(this.#kernel);
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  /** Where the kernel lives: for programs that run beside it. */
  async enclosure(): Promise<Enclosure> {
    await this.live();
    return (this.#quarters as Quarters).enclosure;
  }

  /** Has a program stay beside the kernel, until the kernel is reset, put to sleep or closed. */
  async host<G extends Guest>(enter: (enclosure: Enclosure) => Promise<G>): Promise<G> {
    const left = () => {
      if (!this.#closed) this.rest();
    };
    return await this.#guests.welcome(async () => await enter(await this.enclosure()), left);
  }

  /** Runs a cell in its turn. What it returns is over when the transaction is. */
  async execute(execution: Execution, policy: TransactionPolicy): Promise<void> {
    // With its sandbox a transaction ends too, though the death of the kernel may be a moment from being known.
    if (this.#undecided !== undefined && this.#quarters?.enclosure.alive === false) {
      await this.#kernel?.died;
      await this.live();
    }
    if (this.#undecided !== undefined) {
      throw new CellaError('TRANSACTION_OPEN', 'An explicit transaction waits to be decided.');
    }
    const keeps = policy !== 'commit_always' || this.#moments.limits.undo > 0;
    const kernel = keeps || !this.#kernel?.idle ? await this.live() : this.#kernel;
    const ready = keeps ? await this.#makeReady(kernel, policy) : { kernel, twin: undefined };
    await this.#run(execution, policy, ready);
  }

  async #run(execution: Execution, policy: TransactionPolicy, { kernel, twin }: Ready): Promise<void> {
    if (this.#abandoned) throw sessionClosed();
    if (this.#overtakers > 0) {
      if (twin !== undefined) this.#quarters?.enclosure.drop(twin);
      throw new CellaError('KERNEL_DIED', 'The kernel was reset or restarted before the cell began.');
    }
    this.#saver.began();
    if (twin !== undefined) {
      execution.settle = (result) => this.#decide(twin, policy, result);
    }
    this.#deciding = twin !== undefined;
    try {
      const { death } = await kernel.execute(execution);
      if (!death) this.#recoveries = 0;
    } finally {
      this.#deciding = false;
      this.#saver.ended();
    }
  }

  get undecided(): boolean {
    return this.#undecided !== undefined;
  }

  async commit(): Promise<void> {
    // Death has decided: the next kernel begins with what was before.
    if (this.#undecided !== undefined && this.#kernel?.dead) await this.live();
    const twin = this.#takeUndecided();
    if (this.#moments.limits.undo > 0) this.#moments.keepForUndo(this.#moment(twin));
    else this.#quarters?.enclosure.drop(twin);
  }

  async rollback(): Promise<void> {
    await this.#goBack(this.#takeUndecided(), false);
  }

  /** Keeps this moment of the kernel, to go back to or to fork from. */
  async keepMoment(name?: string): Promise<Moment> {
    const kernel = await this.live();
    const twin = await this.#twin(kernel);
    const moment = { ...this.#moment(twin), ...(name === undefined ? {} : { name }) };
    this.#moments.keep(moment);
    await this.#fitMoments();
    return moment;
  }

  findMoment(idOrName: string): Moment | undefined {
    return this.#moments.find(idOrName);
  }

  removeMoment(moment: Moment): void {
    this.#moments.remove(moment);
  }

  async restoreMoment(moment: Moment): Promise<void> {
    await this.#rollBackUndecided();
    await this.#goBack(moment.twin, true);
    this.#recoveries = 0;
  }

  /** To before the last cell. Gives the number of executions that had been had by then. */
  async undo(): Promise<number> {
    if (this.#undecided !== undefined) {
      await this.rollback();
      return this.#executions;
    }
    const moment = this.#moments.takeUndo();
    await this.#goBack(moment.twin, false);
    return moment.execution;
  }

  /** Another kernel with the same memory, for another keeper: it lives in the same quarters. */
  async branch(from: Moment | undefined): Promise<{ quarters: Quarters; link: KernelLink }> {
    const kernel = await this.live();
    const twin = from?.twin ?? (await this.#twin(kernel));
    const quarters = this.#quarters as Quarters;
    const link = await quarters.launch({ env: {}, from: { twin, keep: from !== undefined }, reseed: true });
    return { quarters, link };
  }

  /** Makes sure that another kernel may live. */
  async reserve(): Promise<void> {
    this.#slot ??= await this.#options.slots.take(this);
  }

  /** Takes over a kernel that was branched off another. */
  async adopt(quarters: Quarters, link: KernelLink, executions: number): Promise<void> {
    this.#asleep = false;
    this.#executions = executions;
    this.#moveTo(quarters);
    await this.#welcome(link, undefined, { fromTwin: true });
    // What the key had before is nothing that this kernel may recover.
    await this.#forgetSaves();
    this.#saver.ended();
  }

  /** Ends what runs, and comes before all that waits: for `reset` and `restart`. */
  async overtake(work: () => Promise<void>): Promise<void> {
    let begun = false;
    this.#overtakers++;
    const turn = this.turns.takeNext(() => {
      begun = true;
      this.#overtakers--;
      return work();
    });
    if (begun) return await turn;
    this.#expectedEnd = true;
    await Promise.all([turn, this.#kernel?.kill()]);
  }

  /** Clears every name, in the same enclosure. */
  async reset(): Promise<void> {
    this.#guests.evict();
    // A crash before the next save must not bring back what was cleared.
    await this.#forgetSaves();
    await this.#clear();
  }

  async #clear(): Promise<void> {
    this.#recoveries = 0;
    this.#cause = undefined;
    this.#asleep = false;
    this.#dropUndecided();
    this.#expectedEnd = true;
    await this.#kernel?.kill();
    await this.live();
    this.#saver.ended();
  }

  /** Ends the enclosure and starts another. */
  async restart(): Promise<void> {
    await this.#forgetSaves();
    this.#recoveries = 0;
    this.#cause = undefined;
    this.#asleep = false;
    await this.#leave('the kernel was restarted');
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
    try {
      return await this.#saver.write(kernel, { kind: 'checkpoint', execution: this.#executions, ...purpose });
    } catch (cause) {
      // It may have died before it was asked: then it is not idle, but nothing runs either.
      const busy = cause instanceof CellaError && cause.code === 'KERNEL_BUSY';
      throw busy && kernel.dead ? new CellaError(kernel.dead.code, kernel.dead.message, { cause }) : cause;
    }
  }

  /** In its turn: saves and ends the kernel; the next call brings it back. */
  hibernate(): Promise<void> {
    return this.turns.take(async () => {
      if (!this.#kernel || this.#kernel.dead) return;
      if (!this.#options.archive) {
        throw new CellaError('INVALID_OPTIONS', 'This session has no storage (persist: false) to sleep in.');
      }
      await this.#rollBackUndecided();
      await this.#saveInPlace();
      this.#asleep = true;
      await this.#leave('the kernel was put to sleep');
    });
  }

  /** Called after each turn: the kernel may have nothing to do. */
  rest(): void {
    this.#idleSince = performance.now();
    this.#options.slots.makeRoom();
  }

  /** `keep`: what has changed is saved first. */
  async close(keep: boolean): Promise<void> {
    if (this.#closed) return;
    await this.#starting?.catch(() => {}); // told to whoever waits for that kernel
    // In its turn: a save that begins by itself would keep the kernel from saving, and would end with it.
    try {
      await this.turns.take(async () => {
        if (!keep || !this.#kernel || this.#kernel.dead) return;
        await this.#rollBackUndecided();
        await this.#saveInPlace();
      });
    } finally {
      // Whatever became of the save, no process stays.
      this.#closed = true;
      this.#saver.close();
      await this.#leave('the session was closed');
    }
  }

  /** Ends what runs at once. Only `close` comes after it. */
  async abandon(): Promise<void> {
    this.#abandoned = true;
    this.#expectedEnd = true;
    await this.#kernel?.close();
  }

  /** Private memory of the kernels in its quarters, in bytes; 0 where they were counted before. Forks share quarters. */
  async memory(counted: Set<unknown>): Promise<number> {
    const enclosure = this.#quarters?.enclosure;
    if (counted.has(enclosure)) return 0;
    counted.add(enclosure);
    const usage = await enclosure?.measure();
    return Object.values(usage?.kernels ?? {}).reduce((total, bytes) => total + bytes, 0);
  }

  /** A kernel that turns out to have died before the cell began is brought back first, once: nothing has run yet. */
  async #makeReady(kernel: Kernel, policy: TransactionPolicy): Promise<Ready> {
    const twin = await this.#before(kernel, policy).catch((error: unknown) => ({ error }));
    if (kernel.dead && this.#overtakers === 0) {
      const next = await this.live();
      return { kernel: next, twin: await this.#before(next, policy) };
    }
    if (typeof twin === 'object') throw twin.error;
    return { kernel, twin };
  }

  async #before(kernel: Kernel, policy: TransactionPolicy): Promise<number | undefined> {
    if (policy !== 'commit_always') return await this.#twin(kernel);
    // For undo alone: a kernel that cannot be forked runs the cell all the same.
    return await this.#twin(kernel).catch(() => undefined);
  }

  async #twin(kernel: Kernel): Promise<number> {
    const twin = (this.#quarters as Quarters).nextTwin();
    await kernel.twin(twin);
    return twin;
  }

  async #decide(twin: number, policy: TransactionPolicy, result: ResultEvent): Promise<ResultEvent> {
    const failed = result.status !== 'ok';
    const back =
      policy === 'rollback_always' || (failed && (policy === 'commit_on_success' || policy === 'rollback_on_failure'));
    // A death decides an explicit one.
    if (back || (policy === 'explicit' && result.death)) return await this.#goBackAfter(twin, result);
    if (policy === 'explicit') {
      this.#undecided = twin;
      return { ...result, transaction: 'open' };
    }
    if (this.#moments.limits.undo > 0) {
      this.#moments.keepForUndo(this.#moment(twin));
      await this.#fitMoments();
    } else this.#quarters?.enclosure.drop(twin);
    return policy === 'commit_always' ? result : { ...result, transaction: 'committed' };
  }

  /** Where the place of the kernel has ended with it, there is nothing to go back to: the last save comes back. */
  async #goBackAfter(twin: number, result: ResultEvent): Promise<ResultEvent> {
    try {
      await this.#goBack(twin, false);
      return { ...result, transaction: 'rolled_back' };
    } catch (error) {
      if (!result.death) throw error;
      this.#cause = result.death;
      return result;
    }
  }

  #moment(twin: number): Moment {
    return { twin, id: randomUUID(), createdAt: this.#options.clock(), execution: this.#executions };
  }

  #takeUndecided(): number {
    const twin = this.#undecided;
    if (twin === undefined) throw new CellaError('NO_TRANSACTION', 'There is no open transaction.');
    this.#undecided = undefined;
    return twin;
  }

  #dropUndecided(): void {
    if (this.#undecided !== undefined) this.#quarters?.enclosure.drop(this.#undecided);
    this.#undecided = undefined;
  }

  async #rollBackUndecided(): Promise<void> {
    if (this.#undecided !== undefined) await this.rollback();
  }

  /** The twin becomes the kernel, or, where it is kept, a fork of it. */
  async #goBack(twin: number, keep: boolean): Promise<void> {
    const quarters = this.#quarters as Quarters;
    this.#expectedEnd = true;
    await this.#kernel?.kill();
    this.#cause = undefined;
    try {
      await this.#welcome(await quarters.launch({ env: {}, from: { twin, keep } }), undefined, { fromTwin: true });
    } catch (cause) {
      // The kernel has ended too: the last save comes back, and the next result says so.
      this.#cause ??= this.#kernel?.dead;
      if (!(cause instanceof CellaError) || cause.code === 'CHECKPOINT_GONE') throw cause;
      throw new CellaError('CHECKPOINT_GONE', `The kernel cannot go back. ${cause.message}`, { cause });
    }
    this.#saver.ended();
  }

  async #fitMoments(): Promise<void> {
    const usage = await this.#quarters?.enclosure.measure();
    if (usage) this.#moments.fit(usage.twins);
  }

  async #start(): Promise<Kernel> {
    if (this.#recoveries >= MOST_RECOVERIES) {
      const cause = this.#cause;
      throw new CellaError(
        'KERNEL_CRASH_LOOP',
        `The kernel of ${this.#options.agentKey} died ${MOST_RECOVERIES + 1} times without finishing a cell. ${cause?.message ?? ''}`.trim(),
        { details: { ...cause } },
      );
    }
    await this.reserve();
    try {
      return await this.#startOnce();
    } catch (error) {
      // A template that was killed a moment ago is not known to be dead before somebody tries it.
      const retry = error instanceof CellaError && error.code === 'TEMPLATE_FAILED' && !this.#closed;
      if (retry) {
        await this.#leave('the process that kernels are forked from has ended', { keepSlot: true });
        return await this.#startOnce();
      }
      this.#release();
      throw error;
    }
  }

  async #startOnce(): Promise<Kernel> {
    const { place } = this.#options;
    let first: Promise<KernelLink> | undefined;
    let fresh = false;
    if (!this.#quarters?.enclosure.alive) {
      await this.#moveOut();
      // Numbers begin anew in the next one.
      this.#moments.lostAll(ENDED);
      this.#undecided = undefined;
      const opened = await place.open();
      first = opened.first;
      fresh = opened.fresh;
      this.#moveTo(new Quarters(opened.enclosure));
    }
    const quarters = this.#quarters as Quarters;
    // Looked for while the kernel starts. An agent that had no folder has no saves.
    const { archive } = this.#options;
    const comesBack = !fresh && (this.#asleep || this.#cause !== undefined);
    if (archive && comesBack) this.#saves = this.#saver.settled().then(() => archive.saves());
    // A transaction that nobody decided is rolled back by the death of its kernel.
    const twin = this.#undecided;
    this.#undecided = undefined;
    if (twin !== undefined && this.#cause) {
      const cause = this.#cause;
      const link = await quarters.launch({ env: {}, from: { twin, keep: false } });
      const kernel = await this.#welcome(link, undefined, { fromTwin: true });
      // Everything is as it was when the transaction began.
      const restored = namesIn(await kernel.ask('variables', {}));
      kernel.notice = { recovered: { cause, savedAgoMs: 0, restored, lost: [] } };
      return kernel;
    }
    const link = await (first ?? quarters.launch(place.begin()));
    return await this.#bringBack(link, comesBack);
  }

  /** A fresh kernel, with the last save in it where there is one to come back to. */
  async #bringBack(link: KernelLink, comesBack: boolean): Promise<Kernel> {
    const cause = this.#cause;
    const saves = await this.#saves;
    this.#saves = Promise.resolve([]);
    if (cause) {
      this.#recoveries++;
      this.#recovered++;
    }
    if (saves.length === 0) {
      const lost = comesBack ? await this.#unreadable() : [];
      const told = cause ? { recovered: { cause, restored: [], lost } } : { woken: { restored: [], lost } };
      return await this.#welcome(link, cause || lost.length > 0 ? told : undefined);
    }
    return await this.#wake(link, saves, cause);
  }

  /** An agent whose saves are all damaged must hear why it has no names. */
  async #unreadable(): Promise<LostName[]> {
    const all = (await this.#options.archive?.unreadable()) ?? [];
    return all.map(({ id, reason }) => ({ name: '*', reason: `the checkpoint ${id} cannot be read: ${reason}` }));
  }

  /** Tries the saves, the newest first: one that is damaged, or ends its kernel, must not keep the agent from going on. */
  async #wake(link: KernelLink, saves: readonly Manifest[], cause: Death | undefined): Promise<Kernel> {
    const archive = this.#options.archive as Archive;
    const quarters = this.#quarters as Quarters;
    const asleep = this.#asleep;
    let kernel = await this.#welcome(link, undefined);
    let told: Woken | undefined;
    try {
      for (const save of saves) {
        this.#expectedEnd = true;
        const savedAgoMs = archive.age(save);
        try {
          const { restored, lost } = await archive.read(kernel, save);
          const all = [...lost, ...save.lost.filter(({ name }) => !lost.some((one) => one.name === name))];
          told = { savedAgoMs, restored, lost: all };
          this.#executions = Math.max(this.#executions, save.execution);
          break;
        } catch (error) {
          if (
            !(error instanceof CellaError) ||
            !(error.code === 'CHECKPOINT_DAMAGED' || LOST_BY_THE_CODE.has(error.code))
          ) {
            throw error;
          }
          const reason = `it could not be loaded: ${error.message}`;
          told ??= { savedAgoMs, restored: [], lost: [...save.saved.map((name) => ({ name, reason })), ...save.lost] };
          if (kernel.dead) kernel = await this.#welcome(await quarters.launch(this.#options.place.begin()), undefined);
        }
      }
    } catch (error) {
      // Whoever tries next begins with the saves again.
      this.#cause = cause ?? kernel.dead;
      this.#asleep = asleep;
      throw error;
    } finally {
      this.#expectedEnd = false;
    }
    if (told) kernel.notice = cause ? { recovered: { ...told, cause } } : { woken: told };
    if (kernel.dead) this.#mourn(kernel, quarters, kernel.dead);
    return kernel;
  }

  async #welcome(link: KernelLink, notice: Notice | undefined, { fromTwin = false } = {}): Promise<Kernel> {
    const quarters = this.#quarters as Quarters;
    this.#expectedEnd = false;
    const kernel = new Kernel(link, {
      background: this.#options.background,
      handler: this.#options.handler?.(),
      notice,
      generation: this.#generation++,
      executions: () => this.#executions,
    });
    this.#kernel = kernel;
    void kernel.died.then((death) => this.#mourn(kernel, quarters, death));
    try {
      await (fromTwin ? awake(kernel) : kernel.ready);
    } catch (error) {
      // It is nobody's kernel: whoever comes next must not find it.
      await kernel.kill();
      throw quarters.enclosure.failure ?? error;
    }
    if (this.#livePid !== quarters.enclosure.pid) {
      this.#livePid = quarters.enclosure.pid;
      this.#options.onLive?.(this.#livePid);
    }
    this.#cause = undefined;
    this.#asleep = false;
    return kernel;
  }

  #mourn(kernel: Kernel, quarters: Quarters, death: Death): void {
    if (this.#quarters === quarters && !quarters.enclosure.alive) this.#moments.lostAll(ENDED);
    if (this.#kernel !== kernel || this.#expectedEnd) return;
    this.#cause = death;
    // Files in /tmp are memory too: a sandbox that ran out of it may have none left for the next kernel.
    if (
      death.code === 'KERNEL_OUT_OF_MEMORY' &&
      quarters.unshared &&
      !this.#deciding &&
      this.#undecided === undefined
    ) {
      void this.#leave('the sandbox ran out of memory', { keepSlot: true });
    }
  }

  #moveTo(quarters: Quarters): void {
    this.#quarters = quarters;
    this.#moveOut = quarters.moveIn({
      onGone: (twin, outOfMemory) => {
        if (twin === this.#undecided) this.#undecided = undefined;
        this.#moments.lost(twin, outOfMemory ? 'memory ran out' : 'its process has ended');
      },
      onDenied: (attempt) => this.#options.onDenied(attempt),
    });
  }

  /** Ends the kernel, and the enclosure with it where nobody else lives there. */
  async #leave(reason: string, { keepSlot = false } = {}): Promise<void> {
    // Forks of the kernel may go on there: its guests do not.
    this.#guests.evict();
    const moveOut = this.#moveOut;
    const quarters = this.#quarters;
    this.#moveOut = async () => {};
    this.#quarters = undefined;
    this.#expectedEnd = true;
    this.#undecided = undefined;
    if (quarters && !quarters.unshared) await this.#kernel?.close();
    await moveOut();
    await this.#kernel?.died;
    this.#moments.lostAll(reason);
    if (!keepSlot) this.#release();
  }

  async #forgetSaves(): Promise<void> {
    await this.#saver.settled();
    await this.#options.archive?.forgetSaves();
  }

  #release(): void {
    this.#slot?.give();
    this.#slot = undefined;
  }

  /** The kernel itself saves: it has nothing else to do any more. */
  async #saveInPlace(): Promise<void> {
    try {
      if (this.#kernel) await this.#saver.flush(this.#kernel, this.#executions);
    } catch (error) {
      // By the code's own doing: whoever wakes the kernel next hears how old its last save is.
      if (!(error instanceof CellaError) || !LOST_BY_THE_CODE.has(error.code)) throw error;
    }
  }

  /** For a save beside the work: a fork of the kernel as it is between two cells. */
  async #freezeForSave(frozen: () => void): Promise<{ kernel: Kernel; execution: number } | undefined> {
    return await this.turns.take(async () => {
      const kernel = this.#kernel;
      if (!kernel?.idle || this.#undecided !== undefined) return undefined;
      const quarters = this.#quarters as Quarters;
      const execution = this.#executions;
      if (quarters.enclosure.forkless) {
        await this.#saver.flush(kernel, execution);
        return undefined;
      }
      try {
        const twin = await this.#twin(kernel);
        const link = await quarters.launch({ env: {}, from: { twin, keep: false } });
        const copy = new Kernel(link, { background: () => {} });
        await awake(copy);
        frozen();
        return { kernel: copy, execution };
      } catch (error) {
        if (!(error instanceof CellaError) || error.code !== 'FORK_UNSAFE') throw error;
        // Threads run: it saves itself, and whoever comes next waits.
        await this.#saver.flush(kernel, execution);
        return undefined;
      }
    });
  }
}

/** A twin holds the memory of the code, which may have seen to it that it never becomes a kernel. */
async function awake(kernel: Kernel): Promise<void> {
  const timer = setTimeout(() => void kernel.kill(), WAKE_MS);
  try {
    await kernel.ready;
  } finally {
    clearTimeout(timer);
  }
}

/** The names of a list of variables, as a kernel tells it: hostile input like any other. */
function namesIn(variables: unknown): string[] {
  if (!Array.isArray(variables)) return [];
  return variables.flatMap(({ name }) => (typeof name === 'string' ? [name] : []));
}

function sessionClosed(): CellaError {
  return new CellaError('SESSION_CLOSED', 'The session was closed.');
}
