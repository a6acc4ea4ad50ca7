/** Looks after what is kept, now and then: of sessions in use often, of all of them seldom. */

import type { Definitions } from './definitions.ts';
import type { HostedSession } from './hosted-session.ts';
import { retain } from './retention.ts';
import type { HostShare } from './share.ts';

/** Of so many rounds, one is for all sessions. */
const ALL_EVERY = 60;

export class Sweeper {
  readonly #share: HostShare;
  readonly #definitions: Definitions;
  readonly #open: ReadonlyMap<string, Promise<HostedSession>>;
  #timer: NodeJS.Timeout | undefined;
  #sweeping: Promise<void> = Promise.resolve();
  #rounds = 0;
  #ended = false;

  constructor(share: HostShare, definitions: Definitions, open: ReadonlyMap<string, Promise<HostedSession>>) {
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
    // One whose code runs for long is trimmed when that is over, and nobody waits here for it.
    for (const opening of this.#open.values()) void opening.then((hosted) => hosted.retain()).catch(() => {});
    if (this.#rounds++ % ALL_EVERY !== 0) return;
    for await (const definition of this.#definitions.all()) {
      if (this.#ended) return;
      if (definition.life === 'present' && !this.#open.has(definition.id)) await retain(this.#share, definition);
    }
  }
}
