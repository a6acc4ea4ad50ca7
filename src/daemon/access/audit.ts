/** The audit log: an event log that is only ever added to, under a key that no agent can have. */

import { setTimeout as delay } from 'node:timers/promises';
import { AuditEntry, type AuditRecord } from '../../protocol/access.ts';
import type { EventLog, TrimLimits } from '../../storage/contract.ts';
import type { Audit, AuditOptions, Principal, Refusal } from './contract.ts';
import { type RefusalOptions, Refusals } from './refusals.ts';
import { requireScope } from './rights.ts';

/** Agent keys hold no null character. */
export const AUDIT_KEY = '\0audit';

/** Names, addresses and paths come from outside, and may be as long as anybody likes. */
const MOST_CHARACTERS = 300;
/** How long notes are gathered: whoever asks again at once does not wait for the line of what was asked before. */
const GATHER_MS = 20;
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
    for await (const { seq, at, event } of this.#events.read(AUDIT_KEY, { after })) {
      const { data: entry } = AuditEntry.safeParse(event);
      if (!entry || (userId ?? entry.userId) !== entry.userId || (session ?? entry.session) !== entry.session) continue;
      yield { seq, at, ...entry };
      left -= 1;
      if (left <= 0) return;
    }
  }
}

function bounded(entry: AuditEntry): AuditEntry {
  const clip = (value: unknown) => (typeof value === 'string' ? value.slice(0, MOST_CHARACTERS) : value);
  return AuditEntry.parse(Object.fromEntries(Object.entries(entry).map(([name, value]) => [name, clip(value)])));
}

/** How a credential is written in the log. */
export const credentialText = ({ kind, id }: Principal['credential']): string =>
  kind === 'daemon' ? kind : `${kind} ${id}`;
