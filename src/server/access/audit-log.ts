/** The audit log: an append-only event log of what users do, and, at a bounded rate, of what is refused. */

import { setTimeout as delay } from 'node:timers/promises';
import { AuditEntry, type AuditRecord } from '../../protocol/access-models.ts';
import type { EventLog, LoggedEvent, TrimLimits } from '../../storage/contract.ts';
import { type Principal, requireScope } from './authorization.ts';
import { type Refusal, RefusalLimiter, type RefusalOptions } from './refusal-limiter.ts';

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
  readonly #refusals: RefusalLimiter;

  constructor(events: EventLog, refusals: RefusalOptions = {}) {
    this.#events = events;
    // If storage fails, it is written with the next entry.
    this.#refusals = new RefusalLimiter((entry) => void this.appendSoon(entry).catch(() => {}), refusals);
  }

  /** How many of each kind were refused since the server started. */
  get refusals(): RefusalLimiter['counts'] {
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

  /** Requires `admin`. Entries after `after`, in order, from a bounded part of the log: `next` is where to continue, up to `last`. */
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
}

type AuditFilter = Pick<AuditQuery, 'userId' | 'session'>;

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
