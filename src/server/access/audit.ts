/** The audit log: an event log that is only ever added to, under a key that no agent can have. */

import { setTimeout as delay } from 'node:timers/promises';
import { AuditEntry, type AuditRecord } from '../../protocol/access-models.ts';
import type { EventLog, LoggedEvent, TrimLimits } from '../../storage/contract.ts';
import type { Audit, AuditOptions, AuditPage, Principal, Refusal } from './contract.ts';
import { type RefusalOptions, Refusals } from './refusals.ts';
import { requireScope } from './rights.ts';

/** Agent keys hold no null character. */
export const AUDIT_KEY = '\0audit';

/** Names, addresses and paths come from outside, and may be as long as anybody likes. */
const MOST_CHARACTERS = 300;
/** How long notes are gathered: whoever asks again at once does not wait for the line of what was asked before. */
const GATHER_MS = 20;
/** How many entries one page looks through for those that are asked for. */
const MOST_LOOKED_AT = 10_000;
/** How many wait for a storage that fails. */
const MOST_NOTED = 1000;

export class LoggedAudit implements Audit {
  readonly #events: EventLog;
  #noted: AuditEntry[] = [];
  #noting: Promise<void> | undefined;
  readonly #refusals: Refusals;

  constructor(events: EventLog, refusals: RefusalOptions = {}) {
    this.#events = events;
    // What storage does not take now waits for the next entry.
    this.#refusals = new Refusals((entry) => void this.note(entry).catch(() => {}), refusals);
  }

  get refusals(): Refusals['counts'] {
    return this.#refusals.counts;
  }

  refused(refusal: Refusal): void {
    this.#refusals.refused(refusal);
  }

  async append(entry: AuditEntry): Promise<void> {
    await this.#write([bounded(entry)], true);
  }

  note(entry: AuditEntry): Promise<void> {
    this.#noted.push(bounded(entry));
    this.#noting ??= this.#writeNoted();
    return this.#noting;
  }

  read(by: Principal, options: AuditOptions = {}): AsyncIterable<AuditRecord> {
    requireScope(by, 'admin');
    return this.#read(options);
  }

  async page(by: Principal, { after = 0, limit = 100, ...wanted }: AuditOptions = {}): Promise<AuditPage> {
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
    // Others may have added some meanwhile.
    return { entries, next, last: Math.max(last, next) };
  }

  async trim(limits: TrimLimits): Promise<void> {
    await this.#events.trim(AUDIT_KEY, limits);
  }

  async flush(): Promise<void> {
    await this.#write([], false);
  }

  /** With what was refused and has no entry yet. */
  async close(): Promise<void> {
    this.#refusals.flush();
    await this.flush();
  }

  /** With what was noted before, which waits for the next time where storage fails. */
  async #write(entries: readonly AuditEntry[], flushed: boolean): Promise<void> {
    const noted = this.#noted.splice(0);
    if (noted.length + entries.length === 0) return;
    try {
      await this.#events.append(AUDIT_KEY, [...noted, ...entries], { flushed });
    } catch (error) {
      this.#noted.unshift(...noted);
      // Of a storage that is away for long the latest are kept.
      this.#noted.splice(0, this.#noted.length - MOST_NOTED);
      throw error;
    }
  }

  async #writeNoted(): Promise<void> {
    await delay(GATHER_MS);
    this.#noting = undefined;
    await this.flush();
  }

  async *#read({ after = 0, limit = Infinity, userId, session }: AuditOptions): AsyncGenerator<AuditRecord> {
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

interface Wanted {
  readonly userId?: string | undefined;
  readonly session?: string | undefined;
}

/** Undefined where it is another user's, of another session, or cannot be read. */
function recordOf({ seq, at, event }: LoggedEvent, { userId, session }: Wanted): AuditRecord | undefined {
  const { data: entry } = AuditEntry.safeParse(event);
  const isMeant = entry && (userId ?? entry.userId) === entry.userId && (session ?? entry.session) === entry.session;
  return isMeant ? { seq, at, ...entry } : undefined;
}

function bounded(entry: AuditEntry): AuditEntry {
  const clip = (value: unknown) => (typeof value === 'string' ? value.slice(0, MOST_CHARACTERS) : value);
  return AuditEntry.parse(Object.fromEntries(Object.entries(entry).map(([name, value]) => [name, clip(value)])));
}

/** How a credential is written in the log. */
export const credentialText = ({ kind, id }: Principal['credential']): string =>
  kind === 'daemon' ? kind : `${kind} ${id}`;
