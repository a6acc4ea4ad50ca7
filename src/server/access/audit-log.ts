/** The audit log: an append-only event log of what users do, and, at a bounded rate, of what is refused. */

import { isIPv6 } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { TokenBucket } from '../../lib/token-bucket.ts';
import { AuditEntry, type AuditRecord, type RefusalKind } from '../../protocol/access-models.ts';
import type { EventLog, LoggedEvent, TrimLimits } from '../../storage/contract.ts';
import { type Principal, requireScope } from './authorization.ts';

/** Agent keys hold no null character. */
export const AUDIT_KEY = '\0audit';

/** Names, addresses and paths come from clients and may have any length. */
const MOST_CHARACTERS = 300;
/**
 * How long `appendSoon` collects entries, so that a client that repeats a request at once does not wait for the previous write.
 */
const GATHER_MS = 20;
/** How many entries one page examines for matching ones. */
const MOST_LOOKED_AT = 10_000;
/** How many entries to keep while storage fails. */
const MOST_BUFFERED = 1000;

interface AuditPage {
  readonly entries: readonly AuditRecord[];
  /** The number of the last entry that was read, for `after`. */
  readonly next: number;
  /** The number of the last entry in the log. */
  readonly last: number;
}

interface AuditQuery {
  readonly after?: number;
  readonly limit?: number;
  readonly userId?: string;
  readonly session?: string;
}

/** Entries are numbered and only appended; a log that is too long loses its oldest. No agent key reaches it. */
export class AuditLog {
  readonly #events: EventLog;
  #buffered: AuditEntry[] = [];
  #flushing: Promise<void> | undefined;
  readonly #refusals: Refusals;

  constructor(events: EventLog, refusals: RefusalOptions = {}) {
    this.#events = events;
    // If storage fails, it is written with the next entry.
    this.#refusals = new Refusals((entry) => void this.appendSoon(entry).catch(() => {}), refusals);
  }

  /** How many of each kind were refused since the server started. */
  get refusals(): Refusals['counts'] {
    return this.#refusals.counts;
  }

  /**
   * Counts a refusal, and writes it soon: the first few of a kind by one user or address each, the rest as `suppressed` of
   * the next entry. Does not wait and never fails.
   */
  refused(refusal: Refusal): void {
    this.#refusals.refused(refusal);
  }

  /** Durable when it resolves. */
  async append(entry: AuditEntry): Promise<void> {
    await this.#write([bounded(entry)], true);
  }

  /** Appended soon, together with others: for frequent actions that are also in the log of a session. */
  appendSoon(entry: AuditEntry): Promise<void> {
    this.#buffered.push(bounded(entry));
    this.#flushing ??= this.#flushSoon();
    return this.#flushing;
  }

  /** Requires `admin`. Entries after `after`, in order. */
  read(by: Principal, options: AuditQuery = {}): AsyncIterable<AuditRecord> {
    requireScope(by, 'admin');
    return this.#read(options);
  }

  /** Requires `admin`. Like `read`, but examines a bounded part of the log: `next` is where to continue, up to `last`. */
  async page(by: Principal, { after = 0, limit = 100, ...wanted }: AuditQuery = {}): Promise<AuditPage> {
    requireScope(by, 'admin');
    await this.flush();
    const last = await this.#events.last(AUDIT_KEY);
    const entries: AuditRecord[] = [];
    let next = after;
    for await (const logged of this.#events.read(AUDIT_KEY, { after, limit: MOST_LOOKED_AT })) {
      next = logged.seq;
      const entry = recordOf(logged, wanted);
      if (entry) entries.push(entry);
      if (entries.length >= limit) break;
    }
    // Others may have added entries in the meantime.
    return { entries, next, last: Math.max(last, next) };
  }

  async trim(limits: TrimLimits): Promise<void> {
    await this.#events.trim(AUDIT_KEY, limits);
  }

  /** Writes what `appendSoon` has buffered. */
  async flush(): Promise<void> {
    await this.#write([], false);
  }

  /** Also writes refusals that have no entry yet. */
  async close(): Promise<void> {
    this.#refusals.flush();
    await this.flush();
  }

  /** Also writes buffered entries. If storage fails, they stay buffered. */
  async #write(entries: readonly AuditEntry[], flushed: boolean): Promise<void> {
    const buffered = this.#buffered.splice(0);
    if (buffered.length + entries.length === 0) return;
    try {
      await this.#events.append(AUDIT_KEY, [...buffered, ...entries], { flushed });
    } catch (error) {
      this.#buffered.unshift(...buffered);
      // During a long failure of storage, keeps the latest entries.
      this.#buffered.splice(0, this.#buffered.length - MOST_BUFFERED);
      throw error;
    }
  }

  async #flushSoon(): Promise<void> {
    await delay(GATHER_MS);
    this.#flushing = undefined;
    await this.flush();
  }

  async *#read({ after = 0, limit = Infinity, userId, session }: AuditQuery): AsyncGenerator<AuditRecord> {
    let left = limit;
    if (left <= 0) return;
    await this.flush();
    for await (const logged of this.#events.read(AUDIT_KEY, { after })) {
      const entry = recordOf(logged, { userId, session });
      if (!entry) continue;
      yield entry;
      left -= 1;
      if (left <= 0) return;
    }
  }
}

interface AuditFilter {
  readonly userId?: string | undefined;
  readonly session?: string | undefined;
}

/** Undefined if it belongs to another user or session, or cannot be read. */
function recordOf({ seq, at, event }: LoggedEvent, { userId, session }: AuditFilter): AuditRecord | undefined {
  const { data: entry } = AuditEntry.safeParse(event);
  const matches = entry && (userId ?? entry.userId) === entry.userId && (session ?? entry.session) === entry.session;
  return matches ? { seq, at, ...entry } : undefined;
}

function bounded(entry: AuditEntry): AuditEntry {
  const clip = (value: unknown) => (typeof value === 'string' ? value.slice(0, MOST_CHARACTERS) : value);
  return AuditEntry.parse(Object.fromEntries(Object.entries(entry).map(([name, value]) => [name, clip(value)])));
}

/** How a token or login is written in the log. */
export const authMethodText = ({ kind, id }: Principal['authMethod']): string =>
  kind === 'server' ? kind : `${kind} ${id}`;

/** `action` is `refused` if no route was involved, and `from` is `local` if no connection was. */
export type Refusal = Omit<AuditEntry, 'kind' | 'outcome' | 'suppressed' | 'action' | 'from'> & {
  readonly kind: RefusalKind;
  readonly action?: string;
  readonly from?: string;
  /** Default: `refused`. */
  readonly outcome?: 'refused' | 'failed';
};

interface RefusalOptions {
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

/**
 * Limits the rate of refusals in the log. A client that is refused again and again must not fill the log or evict the entries
 * of others: each user, and each unknown address, gets a few entries per kind, then one a minute with a count.
 */
export class Refusals {
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
