/**
 * Limits the rate of refusals in the audit log. A client that is refused again and again must not fill the log or evict the
 * entries of others: each user, and each unknown address, gets a few entries per kind, then one a minute with a count.
 */

import { isIPv6 } from 'node:net';
import { TokenBucket } from '../../lib/token-bucket.ts';
import type { AuditEntry, RefusalKind } from '../../protocol/access-models.ts';

/** `action` is `refused` if no route was involved, and `from` is `local` if no connection was. */
export type Refusal = Omit<AuditEntry, 'kind' | 'outcome' | 'suppressed' | 'action' | 'from'> & {
  readonly kind: RefusalKind;
  readonly action?: string;
  readonly from?: string;
  /** Default: `refused`. */
  readonly outcome?: 'refused' | 'failed';
};

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

interface AuditSource {
  readonly bucket: TokenBucket;
  suppressed: number;
  /** The last refusal that has no entry yet. */
  last: AuditEntry | undefined;
}

export class RefusalLimiter {
  readonly counts = new Map<RefusalKind, number>();
  readonly #write: (entry: AuditEntry) => void;
  readonly #options: Required<RefusalOptions>;
  /** By kind and user or address. The least recently refused comes first. */
  readonly #sources = new Map<string, AuditSource>();
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
    // Addresses are cheap: all unknown clients also share one limit.
    const shared = known === undefined ? this.#source(`${kind} `, this.#options.burstOfUnknown) : undefined;
    const now = this.#options.elapsed();
    const full = [own, shared].find((source) => source && source.bucket.wait(1, now) > 0);
    if (full) {
      this.#suppress(full, entry);
      return;
    }
    own.bucket.take(1, now);
    shared?.bucket.take(1, now);
    this.#tell(own, entry);
  }

  /** Writes entries for the remaining refusals. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const source of this.#sources.values()) if (source.last) this.#tell(source, source.last, 1);
  }

  #source(key: string, burst: number): AuditSource {
    const known = this.#sources.get(key) ?? this.#newSource(burst);
    this.#sources.delete(key);
    this.#sources.set(key, known);
    if (this.#sources.size > this.#options.most) this.#forget();
    return known;
  }

  #newSource(burst: number, left = burst): AuditSource {
    const { elapsed, everyMs } = this.#options;
    return { bucket: new TokenBucket(burst, everyMs, elapsed(), left), suppressed: 0, last: undefined };
  }

  #suppress(source: AuditSource, entry: AuditEntry): void {
    source.suppressed++;
    source.last = entry;
    this.#timer ??= setTimeout(() => this.#settle(), this.#options.everyMs).unref();
  }

  /** `counted` is the number of suppressed refusals that this entry itself represents. */
  #tell(source: AuditSource, entry: AuditEntry, counted = 0): void {
    const suppressed = source.suppressed - counted;
    source.suppressed = 0;
    source.last = undefined;
    this.#write({ ...entry, ...(suppressed > 0 ? { suppressed } : {}) });
  }

  /** Writes suppressed refusals, because no later refusal may come to include their count. */
  #settle(): void {
    this.#timer = undefined;
    const { elapsed, everyMs } = this.#options;
    let waiting = false;
    for (const source of this.#sources.values()) {
      if (!source.last) continue;
      if (source.bucket.take(1, elapsed()) > 0) waiting = true;
      else this.#tell(source, source.last, 1);
    }
    if (waiting) this.#timer = setTimeout(() => this.#settle(), everyMs).unref();
  }

  /**
   * Adds the unwritten count of a forgotten source to the kind's shared one, so that the number of entries stays bounded and no
   * count is lost.
   */
  #forget(): void {
    for (const [key, source] of this.#sources) {
      this.#sources.delete(key);
      if (!source.last) return;
      const [kind = ''] = key.split(' ');
      const shared = this.#sources.get(`${kind} `) ?? this.#newSource(this.#options.burstOfUnknown, 0);
      shared.suppressed += source.suppressed;
      shared.last ??= source.last;
      this.#sources.set(`${kind} `, shared);
      return;
    }
  }
}

/** One customer of a provider typically has a whole 64-bit IPv6 network. */
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
