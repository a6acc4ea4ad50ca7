/** Which denied attempts are told: each once in a while, and never a flood of them. */

import type { NetworkDeniedEvent } from '../../protocol/events.ts';

export type Denied = Omit<NetworkDeniedEvent, 'type'>;

const AGAIN_AFTER_MS = 60_000;
/** How many at once, and how long until there may be one more. */
const MOST_AT_ONCE = 20;
const ONE_MORE_MS = 10_000;
const LONGEST_HOST = 255;

export class Denials {
  readonly #told = new Map<string, number>();
  #room = MOST_AT_ONCE;
  #since = 0;
  #untold = 0;

  /** What is to be told of this one; undefined where it is only counted. */
  note({ host, port, reason }: Denied, nowMs = performance.now()): Denied | undefined {
    const name = legible(host);
    const key = `${name} ${port} ${reason}`;
    const last = this.#told.get(key);
    this.#makeRoom(nowMs);
    if ((last !== undefined && nowMs - last < AGAIN_AFTER_MS) || this.#room < 1) {
      this.#untold++;
      return undefined;
    }
    this.#room--;
    this.#told.delete(key);
    this.#told.set(key, nowMs);
    for (const [oldest] of this.#told) {
      if (this.#told.size <= MOST_AT_ONCE * 4) break;
      this.#told.delete(oldest);
    }
    const more = this.#untold;
    this.#untold = 0;
    return { host: name, port, reason, ...(more === 0 ? {} : { more }) };
  }

  #makeRoom(nowMs: number): void {
    this.#room = Math.min(MOST_AT_ONCE, this.#room + (nowMs - this.#since) / ONE_MORE_MS);
    this.#since = nowMs;
  }
}

/** It comes from the code, and goes to people's screens. */
function legible(host: string): string {
  return host.slice(0, LONGEST_HOST).replace(/[^\x21-\x7e]/g, '?');
}
