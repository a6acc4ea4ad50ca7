/** Selects the denied attempts of a sandbox to report. Repeated ones and floods are only counted. */

import { TokenBucket } from '../../lib/token-bucket.ts';
import type { NetworkDeniedEvent } from '../../protocol/execution-events.ts';

export type DeniedAttempt = Omit<NetworkDeniedEvent, 'type'>;

/** The same attempt is reported again after this time. */
const AGAIN_AFTER_MS = 60_000;
/** The most reports in a burst, and the time until one more is allowed. */
const MOST_AT_ONCE = 20;
const ONE_MORE_MS = 10_000;
const LONGEST_HOST = 255;

export class DenialReports {
  readonly #reported = new Map<string, number>();
  readonly #room = new TokenBucket(MOST_AT_ONCE, ONE_MORE_MS, 0);
  #unreported = 0;

  /** The attempt to report; undefined if it is only counted. */
  note({ host, port, reason }: DeniedAttempt, nowMs = performance.now()): DeniedAttempt | undefined {
    const name = printableHost(host);
    const key = `${name} ${port} ${reason}`;
    const last = this.#reported.get(key);
    if ((last !== undefined && nowMs - last < AGAIN_AFTER_MS) || this.#room.take(1, nowMs) > 0) {
      this.#unreported++;
      return undefined;
    }
    this.#reported.delete(key);
    this.#reported.set(key, nowMs);
    for (const [oldest] of this.#reported) {
      if (this.#reported.size <= MOST_AT_ONCE * 4) break;
      this.#reported.delete(oldest);
    }
    const more = this.#unreported;
    this.#unreported = 0;
    return { host: name, port, reason, more: more === 0 ? undefined : more };
  }
}

/** The host name comes from code and is shown on people's screens. */
function printableHost(host: string): string {
  return host.slice(0, LONGEST_HOST).replace(/[^\x21-\x7e]/g, '?');
}
