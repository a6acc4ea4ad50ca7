/** The live and durable checkpoints of one kernel in one list, found by id or name, the newest first. */

import type { Kernel } from '../kernel/kernel.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Checkpoint, Manifest, Restored } from '../protocol/kernel-state.ts';
import { type Autosave, saveCheckpoint } from './autosave.ts';
import type { DurableCheckpoints } from './durable-checkpoints.ts';
import type { KernelProcess } from './kernel-process.ts';
import type { Recovery } from './recovery.ts';
import type { KernelRollback } from './rollback.ts';
import type { LiveCheckpoint } from './snapshots.ts';

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
      const message = 'This session has no storage (persist: false): nothing durable can be made.';
      throw new CellaError('INVALID_OPTIONS', message);
    }
    const kernel = await recovery.ensureRunning();
    const label = { execution: kernelProcess.executions, ...(name === undefined ? {} : { name }) };
    const manifest = await saveCheckpoint(kernel, autosave, label);
    if (manifest.saved.length === 0 && manifest.lost.some(({ reason }) => reason.includes('size cap'))) {
      await store.delete(manifest.id);
      const { lost } = manifest;
      throw new CellaError('CHECKPOINT_TOO_LARGE', 'No name fits into the size cap.', { details: { lost } });
    }
    return toCheckpoint(manifest);
  }

  /** Oldest first. */
  async list(): Promise<Checkpoint[]> {
    const durable = (await this.#parts.durable?.list()) ?? [];
    const all = [...durable.map(toCheckpoint), ...this.#live.map(fromLive)];
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
    this.#parts.recovery.resetCrashes();
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

  /** Replaces every variable by those of a durable checkpoint, in a fresh kernel. */
  async #load(manifest: Manifest): Promise<Restored> {
    const { durable, autosave, clear } = this.#parts;
    if (!durable) throw new CellaError('CHECKPOINT_NOT_FOUND', 'This session has no storage.');
    await durable.check(manifest);
    const { restored, lost } = await durable.read(await clear(), manifest);
    autosave.changed();
    return { checkpoint: toCheckpoint(manifest), restored, lost };
  }

  /** A live checkpoint that is gone does not hide a durable one of the same name. */
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
    const all = (await this.#parts.durable?.list()) ?? [];
    return all.findLast(({ id, name }) => id === idOrName || name === idOrName);
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
  const { bytes, python, saved, lost } = rest;
  return {
    id,
    name,
    ...{ kind: 'durable', automatic: kind === 'save', createdAt, execution, bytes, python, saved, lost },
  };
}
