/** Looks after what is kept, now and then: of sessions in use often, of all of them seldom. */

import { setTimeout as delay } from 'node:timers/promises';
import { giveWay } from '../../lib/event-loop.ts';
import type { Storage } from '../../storage/contract.ts';
import type { Definition } from './definition.ts';
import type { Definitions } from './definitions.ts';
import { storageKeyOf } from './ids.ts';
import type { OpenSessions } from './open-sessions.ts';
import { isTaken, takeSession } from './ownership.ts';
import { retain } from './retention.ts';
import type { HostShare } from './share.ts';

/** Of so many rounds, one is for all sessions. */
const ALL_EVERY = 60;
/** How long the others wait for one session. */
const PATIENCE_MS = 100;

export class Sweeper {
  readonly #share: HostShare;
  readonly #definitions: Definitions;
  readonly #open: OpenSessions;
  #timer: NodeJS.Timeout | undefined;
  #sweeping: Promise<void> = Promise.resolve();
  #rounds = 0;
  #ended = false;

  constructor(share: HostShare, definitions: Definitions, open: OpenSessions) {
    this.#share = share;
    this.#definitions = definitions;
    this.#open = open;
  }

  begin(): void {
    if (this.#ended) return;
    this.#timer = setTimeout(() => {
      this.#sweeping = this.#sweep()
        .catch(() => {}) // storage does not work; the next round may find that it does
        .then(() => this.begin());
    }, this.#share.sweepEveryMs).unref();
  }

  async end(): Promise<void> {
    this.#ended = true;
    clearTimeout(this.#timer);
    await this.#sweeping;
  }

  async #sweep(): Promise<void> {
    for (const opening of [...this.#open.openings]) {
      if (this.#ended) return;
      await giveWay();
      // Where storage fails, the next round tries again.
      const retained = opening.then((hosted) => hosted.retain()).catch(() => {});
      // One whose code runs for long is trimmed when that is over, and nobody waits here for it.
      const patience = new AbortController();
      await Promise.race([retained, delay(PATIENCE_MS, undefined, patience).catch(() => {})]); // it was trimmed first
      patience.abort();
    }
    await this.#open.closeUnused(this.#share.closeAfterMs);
    if (this.#rounds++ % ALL_EVERY !== 0) return;
    await this.clear();
    for await (const definition of this.#definitions.all()) {
      if (this.#ended) return;
      if (definition.life === 'present' && !this.#open.has(definition.id)) await this.#retain(definition);
    }
  }

  /** Removes the files of sessions that another server has deleted. */
  async clear(): Promise<void> {
    const { leftovers } = this.#share;
    const isThere = (id: string) => this.#definitions.exists(id);
    if (!leftovers) return;
    for await (const key of leftovers.gone(isThere)) await this.#alone(key, () => leftovers.clear(key, isThere));
  }

  async #retain(definition: Definition): Promise<void> {
    const key = storageKeyOf(definition.ownerId, definition.agentKey);
    await this.#alone(key, (storage) => retain({ ...this.#share, storage }, definition));
  }

  /** Whoever has it looks after it. */
  async #alone(key: string, work: (storage: Storage) => Promise<unknown>): Promise<void> {
    const { storage } = this.#share;
    try {
      await using lock = await takeSession(storage, key);
      await work(storage.fenced(lock));
    } catch (error) {
      if (!isTaken(error)) throw error;
    }
  }
}
