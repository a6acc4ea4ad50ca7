/**
 * Writes the events of one session: in the order in which they came, a few at a time, each durable before anybody sees
 * it. Where storage fails, what was not written gets no number, and so numbers have no gap; when storage works again,
 * the log is told how much it missed and that what ran has failed.
 */

import { CellaError } from '../../protocol/errors.ts';
import type { SessionEventBody } from '../../protocol/http/events.ts';
import type { EventLog } from '../../storage/contract.ts';
import type { Counters } from './counters.ts';
import type { LogPosition } from './log-position.ts';
import { elsewhere } from './ownership.ts';
import { Tail } from './tail.ts';

/** How long a small event waits for others to be written with. */
const GATHER_MS = 2;
const GATHER_BYTES = 64 * 1024;
const BATCH_EVENTS = 500;
const BATCH_BYTES = 1024 * 1024;
/** Past this, whoever has more to write waits. */
const HIGH_WATER = 2 * 1024 * 1024;
const RETRY_MS = 1000;
/** What an event takes beside its text. */
const EVENT_COST = 128;

type Stamped = SessionEventBody & { readonly at: number };

interface Entry {
  readonly event: Stamped;
  readonly size: number;
  /** Whether it must survive a loss of power too. */
  readonly flushed: boolean;
  readonly written: PromiseWithResolvers<number> | undefined;
}

/** After a failure: nobody knows whether `sent` is in the log, and everything else since then is not. */
interface Broken {
  readonly sent: readonly Stamped[];
  readonly error: CellaError;
  lost: number;
}

export interface WriterParts {
  readonly log: EventLog;
  readonly key: string;
  readonly counters: Counters;
  /** Whether this server still has the session; where it has not, another one writes. */
  readonly owned: () => boolean;
  /** Told when events could not be written. What runs must end, and writes nothing more. */
  readonly onFailure: (error: CellaError) => void;
}

export class EventWriter {
  readonly #parts: WriterParts;
  readonly tail = new Tail();
  /** What of it is durable. */
  readonly position: LogPosition;
  readonly #readers = new Set<() => void>();
  #queue: Entry[] = [];
  #queuedBytes = 0;
  #bytes = 0;
  #gathering: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #draining: Promise<void> | undefined;
  #room: PromiseWithResolvers<void> | undefined;
  #broken: Broken | undefined;
  #closed = false;

  constructor(parts: WriterParts, position: LogPosition) {
    this.#parts = parts;
    this.position = position;
  }

  /** Told after each change; gives what ends that. */
  listen(told: () => void): () => void {
    this.#readers.add(told);
    this.#parts.counters.readers++;
    return () => {
      if (this.#readers.delete(told)) this.#parts.counters.readers--;
    };
  }

  /** Has every reader look again. */
  tell(): void {
    for (const told of this.#readers) told();
  }

  /** Written soon, with what comes next. `size` is about what it takes. */
  add(event: SessionEventBody, size = 0): void {
    if (!this.#enter({ event: stamped(event), size: size + EVENT_COST, flushed: false, written: undefined })) return;
    if (this.#queuedBytes >= GATHER_BYTES) this.#begin();
    else this.#gathering ??= setTimeout(() => this.#begin(), GATHER_MS);
  }

  /** Written at once. Resolves with its number when it is durable. */
  write(event: SessionEventBody, { size = 0, flushed = false } = {}): Promise<number> {
    const written = Promise.withResolvers<number>();
    // Who does not wait for it hears of a failure by `onFailure`.
    written.promise.catch(() => {});
    if (this.#enter({ event: stamped(event), size: size + EVENT_COST, flushed, written })) this.#begin();
    else written.reject(new CellaError('SESSION_CLOSED', 'The session was closed.'));
    return written.promise;
  }

  /** Resolves when a writer may go on who has much to write. */
  async room(): Promise<void> {
    if (this.#queuedBytes <= HIGH_WATER) return;
    this.#room ??= Promise.withResolvers();
    await this.#room.promise;
  }

  /** Whether `room` is worth waiting for. */
  get full(): boolean {
    return this.#queuedBytes > HIGH_WATER;
  }

  /** About how much it has written. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Resolves when all that was added so far is written or lost. */
  async settled(): Promise<void> {
    this.#begin();
    while (this.#draining) await this.#draining;
  }

  /** Whether all that ever came is in the log. */
  get sound(): boolean {
    return this.#broken === undefined && this.#queue.length === 0;
  }

  /** What comes after is not written; what was added before is. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.settled();
    clearTimeout(this.#retry);
  }

  #enter(entry: Entry): boolean {
    if (this.#closed) return false;
    this.#queue.push(entry);
    this.#queuedBytes += entry.size;
    return true;
  }

  #begin(): void {
    clearTimeout(this.#gathering);
    this.#gathering = undefined;
    this.#draining ??= this.#drain().finally(() => {
      this.#draining = undefined;
      if (this.#queue.length > 0) this.#begin();
    });
  }

  async #drain(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#takeBatch();
      try {
        await this.#repair();
        await this.#append(batch.filter((entry) => !this.#isTold(entry)));
      } catch (cause) {
        this.#fail(batch, cause);
      }
      this.#room?.resolve();
      this.#room = undefined;
    }
  }

  #takeBatch(): Entry[] {
    let bytes = 0;
    let count = 0;
    for (const { size } of this.#queue) {
      if (count > 0 && (count === BATCH_EVENTS || bytes + size > BATCH_BYTES)) break;
      bytes += size;
      count++;
    }
    this.#queuedBytes -= bytes;
    return this.#queue.splice(0, count);
  }

  /** An execution ends once: the log may have been told of its failure by now. */
  #isTold({ event, written }: Entry): boolean {
    if (event.type !== 'execution_failed' || this.position.isOpen(event.execution)) return false;
    written?.resolve(this.position.last);
    return true;
  }

  async #append(batch: readonly Entry[]): Promise<void> {
    if (batch.length === 0) return;
    const { log, key, counters, owned } = this.#parts;
    if (!owned()) throw elsewhere();
    const events = batch.map(({ event }) => event);
    const last = await log.append(key, events, { flushed: batch.some(({ flushed }) => flushed) });
    const first = last - batch.length + 1;
    // Somebody else has written to this log: what is between is read from it.
    if (first !== this.position.last + 1) this.tail.clear();
    this.position.advance(events, last);
    counters.events += batch.length;
    for (const [index, { event, size, written }] of batch.entries()) {
      this.tail.push({ seq: first + index, ...event }, size);
      this.#bytes += size;
      written?.resolve(first + index);
    }
    this.tell();
  }

  #fail(batch: readonly Entry[], cause: unknown): void {
    const error = failureOf(cause);
    const lost = [...batch, ...this.#queue];
    this.#queue = [];
    this.#queuedBytes = 0;
    this.#broken ??= { sent: batch.map(({ event }) => event), error, lost: 0 };
    this.#broken.lost += lost.length;
    this.#parts.counters.appendFailures++;
    this.#parts.counters.eventsLost += lost.length;
    for (const { written } of lost) written?.reject(error);
    this.#parts.onFailure(error);
    this.#retryLater();
  }

  /** After a failure: finds out what is in the log, and tells there what became of the rest. */
  async #repair(): Promise<void> {
    const broken = this.#broken;
    if (!broken) return;
    const { log, key } = this.#parts;
    const last = await log.last(key);
    if (last >= this.position.last + broken.sent.length) {
      this.position.advance(broken.sent, last);
      this.#broken = { ...broken, sent: [], lost: broken.lost - broken.sent.length };
      this.tail.clear();
    }
    const { lost, error } = this.#broken ?? broken;
    const told: SessionEventBody[] = lost > 0 ? [{ type: 'events_lost', count: lost, reason: error.message }] : [];
    const failures = this.position.open.map((execution) => executionFailed(execution, error));
    const entries = [...told, ...failures].map(
      (event): Entry => ({ event: stamped(event), size: EVENT_COST, flushed: true, written: undefined }),
    );
    // What of this is in the log where it fails is not known either.
    if (entries.length > 0) {
      this.#broken = { error, lost, sent: entries.map(({ event }) => event) };
      await this.#append(entries);
    }
    this.#broken = undefined;
    this.tell();
  }

  #retryLater(): void {
    if (this.#closed) return;
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      this.#draining ??= this.#repair()
        .catch(() => this.#retryLater()) // storage still does not work
        .finally(() => {
          this.#draining = undefined;
          if (this.#queue.length > 0) this.#begin();
        });
    }, RETRY_MS).unref();
  }
}

export function executionFailed(execution: string, error: CellaError): SessionEventBody {
  return { type: 'execution_failed', execution, error: error.toJSON() };
}

function stamped(event: SessionEventBody): Stamped {
  return { at: Date.now(), ...event };
}

function failureOf(cause: unknown): CellaError {
  if (cause instanceof CellaError) return cause;
  return new CellaError('STORAGE_FAILED', `The events of the session cannot be written: ${String(cause)}.`, { cause });
}
