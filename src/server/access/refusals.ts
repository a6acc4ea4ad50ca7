/**
 * What was refused, on its way to the audit log: counted always, written down at a bounded rate.
 *
 * Whoever tries must not be able to fill the log, nor to push out what others did. Each user, and each address of somebody
 * unknown, has a few entries for each kind and then one a minute, which says how many more there were.
 */

import { isIPv6 } from 'node:net';
import type { AuditEntry, RefusalKind } from '../../protocol/access-models.ts';
import type { Refusal } from './contract.ts';

export interface RefusalOptions {
  /** Entries of one user and kind at once; after that, one each `everyMs`. */
  readonly burst?: number;
  /** The same for all unknown addresses together. */
  readonly burstOfUnknown?: number;
  readonly everyMs?: number;
  /** Users and addresses that are known at a time. */
  readonly most?: number;
  /** Milliseconds that never go back. */
  readonly elapsed?: () => number;
}

interface Source {
  left: number;
  at: number;
  suppressed: number;
  /** The last of those that have no entry yet. */
  last: AuditEntry | undefined;
}

export class Refusals {
  readonly counts = new Map<RefusalKind, number>();
  readonly #write: (entry: AuditEntry) => void;
  readonly #options: Required<RefusalOptions>;
  /** By kind and user or address. The one that was heard of longest ago comes first. */
  readonly #sources = new Map<string, Source>();
  #timer: NodeJS.Timeout | undefined;

  constructor(write: (entry: AuditEntry) => void, options: RefusalOptions = {}) {
    this.#write = write;
    const { burst = 10, burstOfUnknown = 100, everyMs = 60_000, most = 5_000 } = options;
    this.#options = { burst, burstOfUnknown, everyMs, most, elapsed: options.elapsed ?? (() => performance.now()) };
  }

  refused({ kind, action = 'refused', from = 'local', outcome = 'refused', ...rest }: Refusal): void {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
    const entry: AuditEntry = { ...rest, kind, action, from, outcome };
    const known = rest.userId ?? rest.session;
    const own = this.#source(`${kind} ${known ?? networkOf(from)}`, this.#options.burst);
    // Addresses are cheap: all who are nobody share a bound as well.
    const shared = known === undefined ? this.#source(`${kind} `, this.#options.burstOfUnknown) : undefined;
    const full = [own, shared].find((source) => source && source.left < 1);
    if (full) {
      this.#suppress(full, entry);
      return;
    }
    own.left--;
    if (shared) shared.left--;
    this.#tell(own, entry);
  }

  /** Writes down what is still without an entry. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const source of this.#sources.values()) if (source.last) this.#tell(source, source.last, 1);
  }

  #source(key: string, burst: number): Source {
    const { elapsed, everyMs, most } = this.#options;
    const at = elapsed();
    const known = this.#sources.get(key) ?? { left: burst, at, suppressed: 0, last: undefined };
    known.left = Math.min(burst, known.left + (at - known.at) / everyMs);
    known.at = at;
    this.#sources.delete(key);
    this.#sources.set(key, known);
    if (this.#sources.size > most) this.#forget();
    return known;
  }

  #suppress(source: Source, entry: AuditEntry): void {
    source.suppressed++;
    source.last = entry;
    this.#timer ??= setTimeout(() => this.#settle(), this.#options.everyMs).unref();
  }

  /** `counted`: how many of the suppressed ones this entry itself stands for. */
  #tell(source: Source, entry: AuditEntry, counted = 0): void {
    const suppressed = source.suppressed - counted;
    source.suppressed = 0;
    source.last = undefined;
    this.#write({ ...entry, ...(suppressed > 0 ? { suppressed } : {}) });
  }

  /** Nothing may have come since that could have told of them. */
  #settle(): void {
    this.#timer = undefined;
    const { elapsed, everyMs } = this.#options;
    let waiting = false;
    for (const source of this.#sources.values()) {
      if (!source.last) continue;
      source.left += (elapsed() - source.at) / everyMs;
      source.at = elapsed();
      if (source.left < 1) {
        waiting = true;
        continue;
      }
      source.left--;
      this.#tell(source, source.last, 1);
    }
    if (waiting) this.#timer = setTimeout(() => this.#settle(), everyMs).unref();
  }

  /** What it did not tell yet goes to the next one, so that the number of entries stays bounded and no count is lost. */
  #forget(): void {
    for (const [key, source] of this.#sources) {
      this.#sources.delete(key);
      if (!source.last) return;
      const [kind = ''] = key.split(' ');
      const shared = this.#sources.get(`${kind} `) ?? { left: 0, at: source.at, suppressed: 0, last: undefined };
      shared.suppressed += source.suppressed;
      shared.last ??= source.last;
      this.#sources.set(`${kind} `, shared);
      return;
    }
  }
}

/** An IPv6 network of 64 bits is one customer of a provider, who has all of its addresses. */
export function networkOf(address: string): string {
  if (!isIPv6(address) || address.startsWith('::ffff:')) return address;
  const [head = ''] = address.split('%');
  const [before = '', after] = head.split('::');
  const left = before === '' ? [] : before.split(':');
  const right = after === undefined || after === '' ? [] : after.split(':');
  const zeros = after === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  const groups = [...left, ...Array.from({ length: zeros }, () => '0'), ...right];
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}
