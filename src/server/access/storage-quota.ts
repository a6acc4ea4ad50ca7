/**
 * Whether a user may store more: what its sessions and its namespaces hold against its limit. Measuring takes a while,
 * so what was measured is used for a minute, with what was admitted since.
 */

import type { Quotas } from '../../protocol/access-models.ts';
import type { CheckpointStore, EventLog, TranscriptStore } from '../../storage/contract.ts';
import type { QuotaKeeper } from './contract.ts';
import { folderBytes } from './folder-bytes.ts';
import { unlinkedBytes } from './unlinked-bytes.ts';

const FRESH_MS = 60_000;

export interface Holdings {
  /** Workspaces, and whatever else on the disk is the user's. */
  readonly folders: readonly string[];
  /** Storage keys of the user's sessions. */
  readonly agentKeys: readonly string[];
  /** Artifacts and skills. */
  readonly keptBytes: number;
}

interface Parts {
  readonly quotas: Pick<QuotaKeeper, 'of' | 'check'>;
  readonly checkpoints: Pick<CheckpointStore, 'list'>;
  readonly transcripts: Pick<TranscriptStore, 'bytes'>;
  readonly events: Pick<EventLog, 'bytes'>;
  readonly holdingsOf: (userId: string) => Promise<Holdings>;
  /** Milliseconds that never go back. */
  readonly elapsed?: () => number;
}

interface Measured {
  readonly at: number;
  readonly bytes: number;
}

export class StorageQuota {
  readonly #parts: Parts;
  readonly #elapsed: () => number;
  readonly #measured = new Map<string, Measured>();
  readonly #measuring = new Map<string, Promise<Measured>>();

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#elapsed = parts.elapsed ?? (() => performance.now());
  }

  /** QUOTA_EXCEEDED where these bytes are over the user's limit. Costs next to nothing where there is none. */
  async admit(userId: string, bytes = 1, limits?: Quotas): Promise<void> {
    const { quotas } = this.#parts;
    if ((limits ?? (await quotas.of(userId))).storageBytes === undefined) return void this.#measured.delete(userId);
    const { at, bytes: used } = this.#measured.get(userId) ?? (await this.#measure(userId));
    // Nobody waits for this one: it is for those who come next. Where it fails, they try again.
    if (this.#elapsed() - at > FRESH_MS) this.#measure(userId).catch(() => {});
    await quotas.check(userId, { storageBytes: bytes }, { storageBytes: used });
    this.took(userId, bytes);
  }

  /** What was kept without anybody knowing before how large it would be. */
  took(userId: string, bytes: number): void {
    const known = this.#measured.get(userId);
    if (known) this.#measured.set(userId, { ...known, bytes: known.bytes + bytes });
  }

  /** As it is now. */
  async used(userId: string): Promise<number> {
    return (await this.#measure(userId)).bytes;
  }

  #measure(userId: string): Promise<Measured> {
    const known = this.#measuring.get(userId);
    if (known) return known;
    const measuring = this.#look(userId).finally(() => this.#measuring.delete(userId));
    this.#measuring.set(userId, measuring);
    return measuring;
  }

  async #look(userId: string): Promise<Measured> {
    const { checkpoints, transcripts, events } = this.#parts;
    const { folders, agentKeys, keptBytes } = await this.#parts.holdingsOf(userId);
    let bytes = keptBytes;
    for (const folder of folders) bytes += await folderBytes(folder);
    bytes += await unlinkedBytes(folders);
    for (const key of agentKeys) {
      bytes += (await transcripts.bytes(key)) + (await events.bytes(key));
      for (const manifest of await checkpoints.list(key)) bytes += manifest.bytes;
    }
    const measured = { at: this.#elapsed(), bytes };
    this.#measured.set(userId, measured);
    return measured;
  }
}
