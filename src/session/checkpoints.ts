/** The checkpoints of a session, live and durable, under one roof: found by id or name, the newest first. */

import type { DurableCheckpoints } from '../kernel-manager/durable-checkpoints.ts';
import type { KernelManager } from '../kernel-manager/kernel-manager.ts';
import type { LiveCheckpoint } from '../kernel-manager/snapshots.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Manifest } from '../protocol/kernel-state.ts';
import type { Checkpoint, CheckpointOptions, Restored } from './api.ts';
import { checkCheckpointOptions } from './options.ts';

export class Checkpoints {
  readonly #keeper: KernelManager;
  readonly #archive: DurableCheckpoints | undefined;

  constructor(keeper: KernelManager, archive: DurableCheckpoints | undefined) {
    this.#keeper = keeper;
    this.#archive = archive;
  }

  async make(options: CheckpointOptions): Promise<Checkpoint> {
    const { name, durable } = checkCheckpointOptions(options);
    const named = name === undefined ? {} : { name };
    if (!durable) return fromMoment(await this.#keeper.addCheckpoint(name));
    if (!this.#archive) {
      throw new CellaError(
        'INVALID_OPTIONS',
        'This session has no storage (persist: false): nothing durable can be made.',
      );
    }
    const manifest = await this.#keeper.saveCheckpoint(named);
    if (manifest.saved.length === 0 && manifest.lost.some(({ reason }) => reason.includes('size cap'))) {
      await this.#archive.delete(manifest.id);
      const { lost } = manifest;
      throw new CellaError('CHECKPOINT_TOO_LARGE', 'No name fits into the size cap.', { details: { lost } });
    }
    return fromManifest(manifest);
  }

  async list(): Promise<Checkpoint[]> {
    const durable = (await this.#archive?.list()) ?? [];
    const all = [...durable.map(fromManifest), ...this.#keeper.checkpoints.map(fromMoment)];
    return all.toSorted((one, other) => one.createdAt - other.createdAt);
  }

  findLive(idOrName: string): LiveCheckpoint {
    const moment = this.#keeper.findCheckpoint(idOrName);
    if (!moment) throw unknown(idOrName);
    return moment;
  }

  async restore(idOrName: string): Promise<Restored> {
    const moment = this.#liveOrGone(idOrName);
    const manifest = moment instanceof CellaError || !moment ? await this.#findDurable(idOrName) : undefined;
    if (manifest) {
      const { restored, lost } = await this.#keeper.load(manifest);
      return { checkpoint: fromManifest(manifest), restored, lost };
    }
    if (moment instanceof CellaError) throw moment;
    if (!moment) throw (await this.#damage(idOrName)) ?? unknown(idOrName);
    await this.#keeper.restoreCheckpoint(moment);
    return { checkpoint: fromMoment(moment) };
  }

  async delete(idOrName: string): Promise<void> {
    const named = this.#keeper.checkpoints.filter(({ id, name }) => id === idOrName || name === idOrName);
    const alive = named.findLast(({ gone }) => gone === undefined);
    const manifest = alive ? undefined : await this.#findDurable(idOrName);
    const moment = manifest ? undefined : (alive ?? named.at(-1));
    if (manifest) await this.#archive?.delete(manifest.id);
    else if (moment) this.#keeper.removeCheckpoint(moment);
    // One that cannot be read has no name any more, but it can be removed.
    else if (!(await this.#damage(idOrName)) || !(await this.#archive?.delete(idOrName))) throw unknown(idOrName);
  }

  /** A live one that is gone does not hide a durable one of the same name. */
  #liveOrGone(idOrName: string): LiveCheckpoint | CellaError | undefined {
    try {
      return this.#keeper.findCheckpoint(idOrName);
    } catch (error) {
      if (error instanceof CellaError) return error;
      throw error;
    }
  }

  async #damage(id: string): Promise<CellaError | undefined> {
    const found = (await this.#archive?.unreadable())?.find((one) => one.id === id);
    if (!found) return undefined;
    return new CellaError('CHECKPOINT_DAMAGED', `The checkpoint ${id} cannot be read: ${found.reason}`, {
      details: { id },
    });
  }

  async #findDurable(idOrName: string): Promise<Manifest | undefined> {
    const all = (await this.#archive?.list()) ?? [];
    return all.findLast(({ id, name }) => id === idOrName || name === idOrName);
  }
}

function unknown(idOrName: string): CellaError {
  return new CellaError('CHECKPOINT_NOT_FOUND', `There is no checkpoint ${JSON.stringify(idOrName)}.`);
}

function fromMoment({ id, name, createdAt, execution, gone }: LiveCheckpoint): Checkpoint {
  return {
    id,
    ...(name === undefined ? {} : { name }),
    ...{ kind: 'live', automatic: false, createdAt, execution },
    ...(gone === undefined ? {} : { gone }),
  };
}

function fromManifest({ id, name, kind, createdAt, execution, bytes, python, saved, lost }: Manifest): Checkpoint {
  return {
    id,
    ...(name === undefined ? {} : { name }),
    ...{ kind: 'durable', automatic: kind === 'save', createdAt, execution, bytes, python, saved, lost },
  };
}
