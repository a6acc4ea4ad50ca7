/**
 * Writes the events of one session: in the order in which they came, a few at a time, each durable before anybody sees
 * it. Where storage fails, what was not written gets no number, and so numbers have no gap; when storage works again,
 * the log is told how much it missed and that what ran has failed.
 */

import { CellaError } from '../../protocol/errors.ts';
import type { SessionEventBody } from '../../protocol/session-events.ts';
import type { EventLog } from '../../storage/contract.ts';
import type { Counters } from './counters.ts';
import type { LogPosition } from './log-position.ts';
import { elsewhere } from './ownership.ts';
import { Tail } from './tail.ts';
import { type Entry, newEntry, type Stamped, WriteQueue } from './write-queue.ts';

/** How long a small event waits for others to be written with. */
const GATHER_MS = 2;
const GATHER_BYTES = 64 * 1024;
const RETRY_MS = 1000;

/** After a failure: nobody knows whether `sent` is in the log, and everything else since then is not. */
interface Broken {
  readonly sent: readonly Stamped[];
  /** How many of the lost ones are told or there where `sent` is in the log. */
  readonly counted: number;
  readonly error: CellaError;
  lost: number;
}

export interface WriterParts {
  readonly log: EventLog;
  readonly key: string;
  readonly counters: Counters;
  /** Whether this server still has the session; where it has not, another one writes. */
  readonly owned: () => boolean;
  /** What an execution that has not ended in the log has come to, where it has. */
  readonly resultOf?: (execution: string) => SessionEventBody | undefined;
  /** Told when events could not be written. What runs must end, and writes nothing more. */
  readonly onFailure: (error: CellaError) => void;
}

export class EventWriter {
  readonly #parts: WriterParts;
  readonly tail = new Tail();
  /** What of it is durable. */
  readonly position: LogPosition;
  readonly #readers = new Set<() => void>();
  readonly #queue = new WriteQueue();
  #bytes = 0;
  #gathering: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #draining: Promise<void> | undefined;
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
      if (!this.#readers.delete(told)) return;
      this.#parts.counters.readers--;
      // Whoever comes next finds them in the log: a session that nobody follows costs no memory.
      if (this.#readers.size === 0) this.tail.clear();
    };
  }

  get hasReaders(): boolean {
    return this.#readers.size > 0;
  }

  /** Has every reader look again. */
  tell(): void {
    for (const told of this.#readers) told();
  }

  /** Written soon, with what comes next. `size` is about what it takes. */
  add(event: SessionEventBody, size = 0): void {
    if (this.#closed) return;
    this.#queue.push(newEntry(event, { size }));
    this.#beginSoon();
  }

  /** Written at once, or `soon`, with what comes next. Resolves with its number when it is durable. */
  write(event: SessionEventBody, { size = 0, flushed = false, soon = false } = {}): Promise<number> {
    const written = Promise.withResolvers<number>();
    // Who does not wait for it hears of a failure by `onFailure`.
    written.promise.catch(() => {});
    if (this.#closed) {
      written.reject(new CellaError('SESSION_CLOSED', 'The session was closed.'));
    } else {
      this.#queue.push(newEntry(event, { size, flushed, written }));
      if (soon) this.#beginSoon();
      else this.#begin();
    }
    return written.promise;
  }

  /** Resolves when a writer may go on who has much to write. */
  room(): Promise<void> {
    return this.#queue.room();
  }

  /** Whether `room` is worth waiting for. */
  get full(): boolean {
    return this.#queue.full;
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
    return this.#broken === undefined && this.#queue.empty;
  }

  /** What comes after is not written; what was added before is. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.settled();
    clearTimeout(this.#retry);
  }

  #beginSoon(): void {
    if (this.#queue.bytes >= GATHER_BYTES) this.#begin();
    else this.#gathering ??= setTimeout(() => this.#begin(), GATHER_MS);
  }

  #begin(): void {
    clearTimeout(this.#gathering);
    this.#gathering = undefined;
    this.#draining ??= this.#drain().finally(() => {
      this.#draining = undefined;
      if (!this.#queue.empty) this.#begin();
    });
  }

  async #drain(): Promise<void> {
    while (!this.#queue.empty) {
      let batch = this.#queue.takeBatch();
      try {
        await this.#repair();
        batch = batch.filter((entry) => !this.#isTold(entry));
        await this.#append(batch);
      } catch (cause) {
        this.#fail(batch, cause);
      }
      this.#queue.makeRoom();
    }
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
      if (this.#readers.size > 0) this.tail.push({ seq: first + index, ...event }, size);
      this.#bytes += size;
      written?.resolve(first + index);
    }
    this.tell();
  }

  #fail(batch: readonly Entry[], cause: unknown): void {
    const error = failureOf(cause);
    const lost = [...batch, ...this.#queue.takeAll()];
    this.#broken ??= { sent: batch.map(({ event }) => event), counted: batch.length, error, lost: 0 };
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
      this.#broken = { ...broken, sent: [], counted: 0, lost: broken.lost - broken.counted };
      this.tail.clear();
    }
    const { lost, error } = this.#broken ?? broken;
    const told: SessionEventBody[] = lost > 0 ? [{ type: 'events_lost', count: lost, reason: error.message }] : [];
    const { resultOf } = this.#parts;
    const failures = this.position.open.map((one) => resultOf?.(one) ?? executionFailed(one, error));
    const entries = [...told, ...failures].map((event) => newEntry(event, { flushed: true }));
    // What of this is in the log where it fails is not known either.
    if (entries.length > 0) {
      this.#broken = { error, lost, counted: lost, sent: entries.map(({ event }) => event) };
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
          if (!this.#queue.empty) this.#begin();
        });
    }, RETRY_MS).unref();
  }
}

export function executionFailed(execution: string, error: CellaError): SessionEventBody {
  return { type: 'execution_failed', execution, error: error.toJSON() };
}

function failureOf(cause: unknown): CellaError {
  if (cause instanceof CellaError) return cause.code === 'LEASE_LOST' ? elsewhere() : cause;
  return new CellaError('STORAGE_FAILED', `The events of the session cannot be written: ${String(cause)}.`, { cause });
}
