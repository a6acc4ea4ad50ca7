/**
 * Notices that a server no longer answers. A command may take long where it carries much, so silence alone proves
 * nothing: then a fresh connection asks, and where that gets no answer either, the server is gone.
 */

import type { Client } from './client.ts';

/** Together less than the second after which a caller must know. */
const SILENCE_MS = 400;
const PULSE_MS = 450;
/** A connection that gives no sign for so long is broken, even where others work. */
const LONGEST_MS = 60_000;

export class Silence {
  readonly #newClient: () => Client;
  readonly #onGone: () => void;
  #pending = 0;
  #lastSign = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(newClient: () => Client, onGone: () => void) {
    this.#newClient = newClient;
    this.#onGone = onGone;
  }

  /** Around each command. */
  async watch<T>(answer: Promise<T>): Promise<T> {
    if (this.#pending === 0) this.#lastSign = performance.now();
    this.#pending += 1;
    this.#timer ??= setTimeout(() => this.#listen(), SILENCE_MS);
    try {
      return await answer;
    } finally {
      this.#pending -= 1;
      this.#lastSign = performance.now();
      if (this.#pending === 0) this.#stop();
    }
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  async #listen(): Promise<void> {
    const timer = this.#timer;
    // What has arrived while this process was busy is read first.
    await new Promise((resolve) => setImmediate(resolve));
    const since = this.#lastSign;
    const quiet = performance.now() - since;
    const alive = quiet < SILENCE_MS / 2 || (quiet < LONGEST_MS && (await hasPulse(this.#newClient())));
    // Everything was answered meanwhile.
    if (this.#timer !== timer) return;
    this.#timer = setTimeout(() => this.#listen(), SILENCE_MS / 2);
    if (!alive && this.#lastSign === since) this.#onGone();
  }
}

async function hasPulse(client: Client): Promise<boolean> {
  client.on('error', () => client.destroy());
  const late = setTimeout(() => setImmediate(() => client.destroy()), PULSE_MS);
  try {
    await client.connect();
    await client.sendCommand(['PING']);
    return true;
  } catch {
    return false; // whatever it is, it is no answer
  } finally {
    clearTimeout(late);
    client.destroy();
  }
}
