/** Checks that storage accepts writes: one small write of each kind, at most every few seconds, with a timeout. */

import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { withTimeout } from '../lib/deadline.ts';
import { singleFlight } from '../lib/single-flight.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Storage } from '../storage/contract.ts';
import { storageFailed } from '../storage/file/file-errors.ts';

/** How long an outcome is reused, so that frequent checks cost nothing. */
const GOOD_FOR_MS = 5000;
const BAD_FOR_MS = 1000;
const TIMEOUT_MS = 5000;
/** As much as a small save takes: a few bytes find room on a disk that is full for everything else. */
const PROBE_BYTES = 64 * 1024;
const COLLECTION = 'server-probes';

interface Outcome {
  readonly at: number;
  readonly failure: unknown;
}

export class StorageProbe {
  readonly #storage: Storage;
  readonly #dataDir: string;
  #last: Outcome | undefined;
  readonly #writeOnce = singleFlight(() => this.#write());

  constructor(storage: Storage, dataDir: string) {
    this.#storage = storage;
    this.#dataDir = dataDir;
  }

  /** Rejects with the reason if writes fail. */
  async check(): Promise<void> {
    const { at = Number.NEGATIVE_INFINITY, failure } = this.#last ?? {};
    const fresh = performance.now() - at < (failure === undefined ? GOOD_FOR_MS : BAD_FOR_MS);
    const outcome = fresh ? { failure } : await this.#probe();
    if (outcome.failure !== undefined) throw outcome.failure;
  }

  async #probe(): Promise<Outcome> {
    const message = `The storage has not finished a small write for ${TIMEOUT_MS / 1000} s.`;
    return await withTimeout(this.#writeOnce(), TIMEOUT_MS, () => new CellaError('STORAGE_FAILED', message));
  }

  async #write(): Promise<Outcome> {
    let failure: unknown;
    try {
      await this.#storage.documents.put(COLLECTION, 'ready', { text: 'x'.repeat(4096) });
      await this.#writeFile();
    } catch (error) {
      failure = error;
    }
    this.#last = { at: performance.now(), failure };
    return this.#last;
  }

  /** With file storage, events are on the same disk. With Redis, workspaces and outputs still are. */
  async #writeFile(): Promise<void> {
    const path = join(this.#dataDir, `.probe-${process.pid}`);
    try {
      await using file = await open(path, 'w', 0o600);
      await file.writeFile(Buffer.alloc(PROBE_BYTES, 1));
      await file.datasync();
    } catch (cause) {
      throw storageFailed('write to', this.#dataDir, cause);
    } finally {
      await rm(path, { force: true }).catch(() => {}); // it is overwritten the next time
    }
  }
}
