/**
 * The rollback points of one kernel: transactions, undo, and its live and durable checkpoints in one list, found by id or name,
 * newest first. A live checkpoint is a snapshot that becomes the kernel.
 */

import { randomUUID } from 'node:crypto';
import type { Kernel } from '../kernel/kernel.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ResultEvent } from '../protocol/execution-events.ts';
import { type Checkpoint, listLost, listSaved, type Manifest, type Restored } from '../protocol/kernel-state.ts';
import type { TransactionPolicy } from '../protocol/session-info.ts';
import type { Clock } from '../storage/contract.ts';
import { type Autosave, saveCheckpoint } from './autosave.ts';
import type { DurableCheckpoints } from './durable-checkpoints.ts';
import { EMPTY, type KernelProcess, takeSnapshot } from './kernel-process.ts';
import type { Recovery } from './recovery.ts';
import type { LiveCheckpoint } from './snapshots.ts';

/** Per agent key, because listing or saving checkpoints reads all of their manifests. */
const MOST_DURABLE = 1000;

interface KernelCheckpointsParts {
  readonly kernelProcess: KernelProcess;
  readonly recovery: Recovery;
  readonly rollback: KernelRollback;
  readonly autosave: Autosave;
  readonly durable: DurableCheckpoints | undefined;
  /** Replaces the kernel by an empty one. */
  readonly clear: () => Promise<Kernel>;
}

export class KernelCheckpoints {
  readonly #parts: KernelCheckpointsParts;

  constructor(parts: KernelCheckpointsParts) {
    this.#parts = parts;
  }

  async add({ name, durable }: { readonly name?: string | undefined; readonly durable: boolean }): Promise<Checkpoint> {
    const { kernelProcess, recovery, rollback, autosave, durable: store } = this.#parts;
    if (!durable) return fromLive(await rollback.addCheckpoint(await recovery.ensureRunning(), name));
    if (!store) {
      const message = 'This session has no storage (persist: false), so it cannot make durable checkpoints.';
      throw new CellaError('INVALID_OPTIONS', message);
    }
    const kept = (await store.list()).filter(({ kind }) => kind === 'checkpoint');
    if (kept.length >= MOST_DURABLE) {
      const message = `This agent key has ${kept.length} durable checkpoints; the limit is ${MOST_DURABLE}.`;
      throw new CellaError('TOO_MANY_CHECKPOINTS', message, { details: { limit: MOST_DURABLE } });
    }
    const kernel = await recovery.ensureRunning();
    const label = { execution: kernelProcess.executions, name };
    const manifest = await saveCheckpoint(kernel, autosave, label);
    if (manifest.saved.length === 0 && manifest.lost.some(({ reason }) => reason.includes('size limit'))) {
      await store.delete(manifest.id);
      const details = listLost(manifest.lost, manifest.moreLost);
      throw new CellaError('CHECKPOINT_TOO_LARGE', 'No variable fits into the size limit.', { details });
    }
    return toCheckpoint(manifest);
  }

  /** Oldest first. */
  async list(): Promise<Checkpoint[]> {
    const { durable } = this.#parts;
    const all = this.#live.map(fromLive);
    for (const { id } of (await durable?.list()) ?? []) {
      const manifest = await durable?.get(id);
      if (manifest) all.push(toCheckpoint(manifest));
    }
    return all.toSorted((one, other) => one.createdAt - other.createdAt);
  }

  findLive(idOrName: string): LiveCheckpoint {
    const found = this.#parts.kernelProcess.checkpoints.find(idOrName);
    if (!found) throw checkpointNotFound(idOrName);
    return found;
  }

  async restore(idOrName: string): Promise<Restored> {
    const live = this.#liveOrGone(idOrName);
    const manifest = live instanceof CellaError || !live ? await this.#findDurable(idOrName) : undefined;
    if (manifest) return await this.#load(manifest);
    if (live instanceof CellaError) throw live;
    if (!live) throw (await this.#damage(idOrName)) ?? checkpointNotFound(idOrName);
    await this.#parts.rollback.restore(live);
    this.#parts.kernelProcess.crashes = 0;
    return { checkpoint: fromLive(live) };
  }

  async delete(idOrName: string): Promise<void> {
    const { kernelProcess, durable } = this.#parts;
    const named = this.#live.filter(({ id, name }) => id === idOrName || name === idOrName);
    const alive = named.findLast(({ gone }) => gone === undefined);
    const manifest = alive ? undefined : await this.#findDurable(idOrName);
    const live = manifest ? undefined : (alive ?? named.at(-1));
    if (manifest) await durable?.delete(manifest.id);
    else if (live) kernelProcess.checkpoints.remove(live);
    // A damaged checkpoint has no readable name, but it can be deleted by its id.
    else if (!(await this.#damage(idOrName)) || !(await durable?.delete(idOrName))) throw checkpointNotFound(idOrName);
  }

  get #live(): readonly LiveCheckpoint[] {
    return this.#parts.kernelProcess.checkpoints.all;
  }

  /** Replaces every variable with those of a durable checkpoint, in a fresh kernel. */
  async #load(manifest: Manifest): Promise<Restored> {
    const { durable, autosave, clear } = this.#parts;
    if (!durable) throw new CellaError('CHECKPOINT_NOT_FOUND', 'This session has no storage.');
    await durable.check(manifest);
    const names = await durable.read(await clear(), manifest);
    autosave.changed();
    return { checkpoint: toCheckpoint(manifest), ...names };
  }

  /** A live checkpoint that is gone does not hide a durable one with the same name. */
  #liveOrGone(idOrName: string): LiveCheckpoint | CellaError | undefined {
    try {
      return this.#parts.kernelProcess.checkpoints.find(idOrName);
    } catch (error) {
      if (error instanceof CellaError) return error;
      throw error;
    }
  }

  async #damage(id: string): Promise<CellaError | undefined> {
    const found = (await this.#parts.durable?.unreadable())?.find((one) => one.id === id);
    if (!found) return undefined;
    return new CellaError('CHECKPOINT_DAMAGED', `The checkpoint ${id} cannot be read: ${found.reason}`, {
      details: { id },
    });
  }

  async #findDurable(idOrName: string): Promise<Manifest | undefined> {
    const { durable } = this.#parts;
    const found = (await durable?.list())?.findLast(({ id, name }) => id === idOrName || name === idOrName);
    return found && (await durable?.get(found.id));
  }
}

function checkpointNotFound(idOrName: string): CellaError {
  return new CellaError('CHECKPOINT_NOT_FOUND', `There is no checkpoint ${JSON.stringify(idOrName)}.`);
}

function fromLive({ id, name, createdAt, execution, gone }: LiveCheckpoint): Checkpoint {
  return {
    id,
    name,
    ...{ kind: 'live', automatic: false, createdAt, execution },
    gone,
  };
}

/** A durable checkpoint as callers see it. */
export function toCheckpoint({ id, name, kind, createdAt, execution, ...rest }: Manifest): Checkpoint {
  const { bytes, python, saved, moreSaved, lost, moreLost } = rest;
  return {
    id,
    name,
    ...{ kind: 'durable', automatic: kind === 'save', createdAt, execution, bytes, python },
    ...listSaved(saved, moreSaved),
    ...listLost(lost, moreLost),
  };
}

/** Takes a kernel back: settles transactions, undoes cells, and restores live checkpoints. The snapshot becomes the kernel. */
export class KernelRollback {
  readonly #process: KernelProcess;
  readonly #autosave: Autosave;
  readonly #clock: Clock;

  constructor(kernelProcess: KernelProcess, autosave: Autosave, clock: Clock) {
    this.#process = kernelProcess;
    this.#autosave = autosave;
    this.#clock = clock;
  }

  /** Keeps or rolls back a cell that has run, and the snapshot from before it. */
  async settleTransaction(snapshot: number, policy: TransactionPolicy, result: ResultEvent): Promise<ResultEvent> {
    const failed = result.status !== 'ok';
    const back =
      policy === 'rollback_always' || (failed && (policy === 'commit_on_success' || policy === 'rollback_on_failure'));
    // The death of the kernel rolls an explicit transaction back.
    if (back || (policy === 'explicit' && result.death)) return await this.#rollbackAfter(snapshot, result);
    if (policy === 'explicit') {
      this.#process.transaction.leaveOpen(snapshot);
      return { ...result, transaction: 'open' };
    }
    if (this.#keepForUndo(snapshot)) await this.#evictToFit();
    return policy === 'commit_always' ? result : { ...result, transaction: 'committed' };
  }

  commit(): void {
    this.#keepForUndo(this.#process.transaction.take());
  }

  async rollback(): Promise<void> {
    await this.#rollbackTo(this.#process.transaction.take(), false);
  }

  async rollbackOpen(): Promise<void> {
    if (this.#process.transaction.open !== undefined) await this.rollback();
  }

  dropOpen(): void {
    const snapshot = this.#process.transaction.forget();
    if (snapshot !== undefined) this.#process.dropSnapshot(snapshot);
  }

  /** A live checkpoint, to go back to or to fork from. */
  async addCheckpoint(kernel: Kernel, name?: string): Promise<LiveCheckpoint> {
    const snapshot = await takeSnapshot(kernel, this.#process.requireShared);
    const checkpoint = { ...this.#newCheckpoint(snapshot), name };
    this.#process.checkpoints.add(checkpoint);
    await this.#evictToFit();
    return checkpoint;
  }

  async restore(checkpoint: LiveCheckpoint): Promise<void> {
    await this.rollbackOpen();
    await this.#rollbackTo(checkpoint.snapshot, true);
  }

  /** Goes back to before the last cell. */
  async undo(): Promise<void> {
    if (this.#process.transaction.open !== undefined) await this.rollback();
    else await this.#rollbackTo(this.#process.checkpoints.takeUndo().snapshot, false);
  }

  /** If the environment has ended with the kernel, the snapshot is gone: the next start loads the last save. */
  async #rollbackAfter(snapshot: number, result: ResultEvent): Promise<ResultEvent> {
    try {
      await this.#rollbackTo(snapshot, false);
      return { ...result, transaction: 'rolled_back' };
    } catch (error) {
      if (!result.death) throw error;
      this.#process.recoverFrom(result.death);
      return result;
    }
  }

  /** The snapshot becomes the kernel; with `keep`, a fork of the snapshot does. */
  async #rollbackTo(snapshot: number, keep: boolean): Promise<void> {
    const kernelProcess = this.#process;
    const shared = kernelProcess.requireShared;
    await kernelProcess.kill(EMPTY);
    try {
      await kernelProcess.attach(await shared.launch({ env: {}, from: { snapshot, keep } }), {
        fromSnapshot: true,
      });
    } catch (cause) {
      // The kernel has ended too: the next start loads the last save, and the next result says so.
      const death = kernelProcess.cause ?? kernelProcess.kernel?.dead;
      if (death) kernelProcess.recoverFrom(death);
      if (!(cause instanceof CellaError) || cause.code === 'CHECKPOINT_GONE') throw cause;
      throw new CellaError('CHECKPOINT_GONE', `The kernel cannot go back. ${cause.message}`, { cause });
    }
    this.#autosave.changed();
  }

  /** False if it was dropped, because nothing can be undone here. */
  #keepForUndo(snapshot: number): boolean {
    const { checkpoints } = this.#process;
    if (checkpoints.limits.undo > 0) checkpoints.addUndo(this.#newCheckpoint(snapshot));
    else this.#process.dropSnapshot(snapshot);
    return checkpoints.limits.undo > 0;
  }

  async #evictToFit(): Promise<void> {
    const usage = await this.#process.shared?.environment.memoryUsage();
    if (usage) this.#process.checkpoints.evictToFit(usage.snapshots);
  }

  #newCheckpoint(snapshot: number): LiveCheckpoint {
    return { snapshot, id: randomUUID(), createdAt: this.#clock(), execution: this.#process.executions };
  }
}
