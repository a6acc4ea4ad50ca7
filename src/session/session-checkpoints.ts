/** The live and durable checkpoints of a session in one list, found by id or name, the newest first. */

import type { DurableCheckpoints } from '../kernel-manager/durable-checkpoints.ts';
import type { KernelManager } from '../kernel-manager/kernel-manager.ts';
import type { LiveCheckpoint } from '../kernel-manager/snapshots.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Manifest } from '../protocol/kernel-state.ts';
import type { Checkpoint, CheckpointOptions, Restored } from './api.ts';
import { checkCheckpointOptions } from './session-options.ts';

export class SessionCheckpoints {
  readonly #manager: KernelManager;
  readonly #durable: DurableCheckpoints | undefined;

  constructor(manager: KernelManager, archive: DurableCheckpoints | undefined) {
    this.#manager = manager;
    this.#durable = archive;
  }

  async make(options: CheckpointOptions): Promise<Checkpoint> {
    const { name, durable } = checkCheckpointOptions(options);
    const named = name === undefined ? {} : { name };
    if (!durable) return fromLive(await this.#manager.addCheckpoint(name));
    if (!this.#durable) {
      throw new CellaError(
        'INVALID_OPTIONS',
        'This session has no storage (persist: false): nothing durable can be made.',
      );
    }
    const manifest = await this.#manager.saveCheckpoint(named);
    if (manifest.saved.length === 0 && manifest.lost.some(({ reason }) => reason.includes('size cap'))) {
      await this.#durable.delete(manifest.id);
      const { lost } = manifest;
      throw new CellaError('CHECKPOINT_TOO_LARGE', 'No name fits into the size cap.', { details: { lost } });
    }
    return fromDurable(manifest);
  }

  async list(): Promise<Checkpoint[]> {
    const durable = (await this.#durable?.list()) ?? [];
    const all = [...durable.map(fromDurable), ...this.#manager.checkpoints.map(fromLive)];
    return all.toSorted((one, other) => one.createdAt - other.createdAt);
  }

  findLive(idOrName: string): LiveCheckpoint {
    const moment = this.#manager.findCheckpoint(idOrName);
    if (!moment) throw checkpointNotFound(idOrName);
    return moment;
  }

  async restore(idOrName: string): Promise<Restored> {
    const moment = this.#liveOrGone(idOrName);
    const manifest = moment instanceof CellaError || !moment ? await this.#findDurable(idOrName) : undefined;
    if (manifest) {
      const { restored, lost } = await this.#manager.load(manifest);
      return { checkpoint: fromDurable(manifest), restored, lost };
    }
    if (moment instanceof CellaError) throw moment;
    if (!moment) throw (await this.#damage(idOrName)) ?? checkpointNotFound(idOrName);
    await this.#manager.restoreCheckpoint(moment);
    return { checkpoint: fromLive(moment) };
  }

  async delete(idOrName: string): Promise<void> {
    const named = this.#manager.checkpoints.filter(({ id, name }) => id === idOrName || name === idOrName);
    const alive = named.findLast(({ gone }) => gone === undefined);
    const manifest = alive ? undefined : await this.#findDurable(idOrName);
    const moment = manifest ? undefined : (alive ?? named.at(-1));
    if (manifest) await this.#durable?.delete(manifest.id);
    else if (moment) this.#manager.removeCheckpoint(moment);
    // One that cannot be read has no name any more, but it can be removed.
    else if (!(await this.#damage(idOrName)) || !(await this.#durable?.delete(idOrName)))
      throw checkpointNotFound(idOrName);
  }

  /** A live one that is gone does not hide a durable one of the same name. */
  #liveOrGone(idOrName: string): LiveCheckpoint | CellaError | undefined {
    try {
      return this.#manager.findCheckpoint(idOrName);
    } catch (error) {
      if (error instanceof CellaError) return error;
      throw error;
    }
  }

  async #damage(id: string): Promise<CellaError | undefined> {
    const found = (await this.#durable?.unreadable())?.find((one) => one.id === id);
    if (!found) return undefined;
    return new CellaError('CHECKPOINT_DAMAGED', `The checkpoint ${id} cannot be read: ${found.reason}`, {
      details: { id },
    });
  }

  async #findDurable(idOrName: string): Promise<Manifest | undefined> {
    const all = (await this.#durable?.list()) ?? [];
    return all.findLast(({ id, name }) => id === idOrName || name === idOrName);
  }
}

function checkpointNotFound(idOrName: string): CellaError {
  return new CellaError('CHECKPOINT_NOT_FOUND', `There is no checkpoint ${JSON.stringify(idOrName)}.`);
}

function fromLive({ id, name, createdAt, execution, gone }: LiveCheckpoint): Checkpoint {
  return {
    id,
    ...(name === undefined ? {} : { name }),
    ...{ kind: 'live', automatic: false, createdAt, execution },
    ...(gone === undefined ? {} : { gone }),
  };
}

function fromDurable({ id, name, kind, createdAt, execution, bytes, python, saved, lost }: Manifest): Checkpoint {
  return {
    id,
    ...(name === undefined ? {} : { name }),
    ...{ kind: 'durable', automatic: kind === 'save', createdAt, execution, bytes, python, saved, lost },
  };
}
