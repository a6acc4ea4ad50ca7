/**
 * The log of one session. Events are appended in order, in batches, and are durable before any reader sees them. If storage
 * fails, events that were not written get no number, so numbers have no gap. When storage works again, the log says how
 * many events were lost, and that the executions that ran have failed.
 */

import { setTimeout as delay } from 'node:timers/promises';
import { CellaError } from '../../protocol/errors.ts';
import { isExecutionEnd, type SessionEvent, type SessionEventBody } from '../../protocol/session-events.ts';
import type { EventLog } from '../../storage/contract.ts';
import { ownedElsewhere } from '../sessions/session-ending.ts';
import type { Counters } from '../sessions/session-types.ts';

/** How long a small event waits to be written together with others. */
const GATHER_MS = 2;
const GATHER_BYTES = 64 * 1024;
const RETRY_MS = 1000;

/** After a failed write: the log may contain `sent`, and contains nothing since then. */
interface WriteFailure {
  readonly sent: readonly TimedEvent[];
  /** How many of the lost events are accounted for if `sent` is in the log. */
  readonly counted: number;
  readonly error: CellaError;
  lost: number;
}

/** The pause before storage is tried again. */
const RETRY_WRITE_MS = 500;

/** Tries until storage accepts it. Throws if the session is closed first: the next server records what is missing. */
export async function writeEventually(write: () => Promise<void>, isClosed: () => boolean): Promise<void> {
  for (;;) {
    try {
      return await write();
    } catch (error) {
      if (isClosed()) throw error;
      await delay(RETRY_WRITE_MS, undefined, { ref: false });
    }
  }
}

export interface SessionLogParts {
  readonly log: EventLog;
  readonly key: string;
  readonly counters: Counters;
  /** Whether this server still owns the session. If not, another one writes. */
  readonly owned: () => boolean;
  /** The end of an execution that has ended, but not in the log. */
  readonly resultOf?: (execution: string) => SessionEventBody | undefined;
  /** Called when events could not be written. Executions and turns must end and write nothing more. */
  readonly onFailure: (error: CellaError) => void;
}

export class SessionLog {
  readonly #parts: SessionLogParts;
  readonly recent = new RecentEvents();
  /** The durable part of the log. */
  readonly state: LogState;
  readonly #readers = new Set<() => void>();
  readonly #queue = new WriteQueue();
  #bytes = 0;
  #gathering: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #draining: Promise<void> | undefined;
  #failure: WriteFailure | undefined;
  #closed = false;

  constructor(parts: SessionLogParts, position: LogState) {
    this.#parts = parts;
    this.state = position;
  }

  /** Calls back after each change. Returns the function that ends it. */
  listen(onChange: () => void): () => void {
    this.#readers.add(onChange);
    this.#parts.counters.readers++;
    return () => {
      if (!this.#readers.delete(onChange)) return;
      this.#parts.counters.readers--;
      // The next reader finds them in storage: a session without readers costs no memory.
      if (this.#readers.size === 0) this.recent.clear();
    };
  }

  get hasReaders(): boolean {
    return this.#readers.size > 0;
  }

  /** Makes every reader check for events and for the end. */
  notifyReaders(): void {
    for (const onChange of this.#readers) onChange();
  }

  /** Writes it soon, together with the next events. */
  add(event: SessionEventBody): void {
    if (this.#closed) return;
    this.#queue.push(newLogEntry(event));
    this.#beginSoon();
  }

  /** Writes it now, or `soon`, together with the next events. Resolves with its number when it is durable. */
  write(event: SessionEventBody, { flushed = false, soon = false } = {}): Promise<number> {
    const written = Promise.withResolvers<number>();
    // A caller who does not await it gets failures through `onFailure`.
    written.promise.catch(() => {});
    if (this.#closed) {
      written.reject(new CellaError('SESSION_CLOSED', 'The session was closed.'));
    } else {
      this.#queue.push(newLogEntry(event, { flushed, written }));
      if (soon) this.#beginSoon();
      else this.#begin();
    }
    return written.promise;
  }

  /** Resolves when a writer with much to write may continue. */
  room(): Promise<void> {
    return this.#queue.room();
  }

  /** Whether writers should wait for `room`. */
  get full(): boolean {
    return this.#queue.full;
  }

  /** About how many bytes it has written. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Resolves when everything added so far is written or lost. */
  async settled(): Promise<void> {
    this.#begin();
    while (this.#draining) await this.#draining;
  }

  /** Whether every event is in the log. */
  get isComplete(): boolean {
    return this.#failure === undefined && this.#queue.empty;
  }

  /** Writes the events added so far. Later events are dropped. */
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
        batch = batch.filter((entry) => !this.#alreadyEnded(entry));
        await this.#append(batch);
      } catch (cause) {
        this.#fail(batch, cause);
      }
      this.#queue.makeRoom();
    }
  }

  /** An execution ends once: its failure may be in the log already. */
  #alreadyEnded({ event, written }: LogEntry): boolean {
    if (event.type !== 'execution_failed' || this.state.isOpen(event.execution)) return false;
    written?.resolve(this.state.last);
    return true;
  }

  async #append(batch: readonly LogEntry[]): Promise<void> {
    if (batch.length === 0) return;
    const { log, key, counters, owned } = this.#parts;
    if (!owned()) throw ownedElsewhere();
    const events = batch.map(({ event }) => event);
    const last = await log.append(key, events, { flushed: batch.some(({ flushed }) => flushed) });
    const first = last - batch.length + 1;
    // Another writer has added to this log: the events in between are read from it.
    if (first !== this.state.last + 1) this.recent.clear();
    this.state.advance(events, last);
    counters.events += batch.length;
    for (const [index, { event, size, written }] of batch.entries()) {
      if (this.#readers.size > 0) this.recent.push({ seq: first + index, ...event }, size);
      this.#bytes += size;
      written?.resolve(first + index);
    }
    this.notifyReaders();
  }

  #fail(batch: readonly LogEntry[], cause: unknown): void {
    const error = toWriteError(cause);
    const lost = [...batch, ...this.#queue.takeAll()];
    this.#failure ??= { sent: batch.map(({ event }) => event), counted: batch.length, error, lost: 0 };
    this.#failure.lost += lost.length;
    this.#parts.counters.appendFailures++;
    this.#parts.counters.eventsLost += lost.length;
    for (const { written } of lost) written?.reject(error);
    this.#parts.onFailure(error);
    this.#retryLater();
  }

  /** After a failed write: finds out what the log contains, and logs the losses and failures. */
  async #repair(): Promise<void> {
    const broken = this.#failure;
    if (!broken) return;
    const { log, key } = this.#parts;
    const last = await log.last(key);
    if (last >= this.state.last + broken.sent.length) {
      this.state.advance(broken.sent, last);
      this.#failure = { ...broken, sent: [], counted: 0, lost: broken.lost - broken.counted };
      this.recent.clear();
    }
    const { lost, error } = this.#failure ?? broken;
    const losses: SessionEventBody[] = lost > 0 ? [{ type: 'events_lost', count: lost, reason: error.message }] : [];
    const { resultOf } = this.#parts;
    const failures = this.state.open.map((one) => resultOf?.(one) ?? executionFailed(one, error));
    const entries = [...losses, ...failures].map((event) => newLogEntry(event, { flushed: true }));
    // If this fails too, how much of it is in the log is unknown again.
    if (entries.length > 0) {
      this.#failure = { error, lost, counted: lost, sent: entries.map(({ event }) => event) };
      await this.#append(entries);
    }
    this.#failure = undefined;
    this.notifyReaders();
  }

  #retryLater(): void {
    if (this.#closed) return;
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      this.#draining ??= this.#repair()
        .catch(() => this.#retryLater()) // storage still fails
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

function toWriteError(cause: unknown): CellaError {
  if (cause instanceof CellaError) return cause.code === 'LEASE_LOST' ? ownedElsewhere() : cause;
  return new CellaError('STORAGE_FAILED', `The events of the session cannot be stored: ${String(cause)}.`, { cause });
}

const BATCH_EVENTS = 500;
const BATCH_BYTES = 1024 * 1024;
/** Beyond this, writers wait. */
const HIGH_WATER = 2 * 1024 * 1024;
/** The assumed size of an event without its texts, and of a value that is no text. */
const EVENT_COST = 128;
const ITEM_COST = 8;

type TimedEvent = SessionEventBody & { readonly at: number };

interface LogEntry {
  readonly event: TimedEvent;
  /** About how many bytes it takes. */
  readonly size: number;
  /** Whether it must survive a power failure. */
  readonly flushed: boolean;
  readonly written: PromiseWithResolvers<number> | undefined;
}

function newLogEntry(event: SessionEventBody, facts: Partial<Pick<LogEntry, 'flushed' | 'written'>> = {}): LogEntry {
  const { flushed = false, written } = facts;
  return { event: { at: Date.now(), ...event }, size: EVENT_COST + sizeOf(event), flushed, written };
}

/** The approximate size: the bytes of its texts, and a constant for each item. */
function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return ITEM_COST;
  let size = ITEM_COST;
  for (const item of Object.values(value)) size += sizeOf(item);
  return size;
}

class WriteQueue {
  #entries: LogEntry[] = [];
  #bytes = 0;
  #room: PromiseWithResolvers<void> | undefined;

  get empty(): boolean {
    return this.#entries.length === 0;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get full(): boolean {
    return this.#bytes > HIGH_WATER;
  }

  push(entry: LogEntry): void {
    this.#entries.push(entry);
    this.#bytes += entry.size;
  }

  takeBatch(): LogEntry[] {
    let bytes = 0;
    let count = 0;
    for (const { size } of this.#entries) {
      if (count > 0 && (count === BATCH_EVENTS || bytes + size > BATCH_BYTES)) break;
      bytes += size;
      count++;
    }
    this.#bytes -= bytes;
    return this.#entries.splice(0, count);
  }

  takeAll(): LogEntry[] {
    this.#bytes = 0;
    return this.#entries.splice(0);
  }

  /** Resolves when it is no longer full: at the next `makeRoom`. */
  async room(): Promise<void> {
    if (!this.full) return;
    this.#room ??= Promise.withResolvers();
    await this.#room.promise;
  }

  makeRoom(): void {
    if (this.full) return;
    this.#room?.resolve();
    this.#room = undefined;
  }
}

export class LogState {
  last: number;
  readonly #open = new Set<string>();
  readonly #turns = new Set<string>();

  constructor(last: number) {
    this.last = last;
  }

  /** Executions that have not ended. */
  get open(): readonly string[] {
    return [...this.#open];
  }

  isOpen(execution: string): boolean {
    return this.#open.has(execution);
  }

  /** Turns that have not ended. */
  get turns(): readonly string[] {
    return [...this.#turns];
  }

  isTurnOpen(turn: string): boolean {
    return this.#turns.has(turn);
  }

  /** These events are in the log; the last has this number. */
  advance(events: Iterable<SessionEventBody>, last: number): void {
    for (const event of events) this.take(event);
    this.last = last;
  }

  take(event: SessionEventBody): void {
    if (event.type === 'turn_started') this.#turns.add(event.turn);
    if (event.type === 'turn_ended') this.#turns.delete(event.turn);
    if (isExecutionEnd(event)) this.#open.delete(event.execution);
    // Its start may have been trimmed: any other event of it shows that it runs, except background output.
    else if ('execution' in event && event.execution && !('background' in event)) this.#open.add(event.execution);
  }
}

const RECENT_EVENTS = 2048;
const RECENT_BYTES = 1024 * 1024;

class RecentEvents {
  #events: { readonly event: SessionEvent; readonly size: number }[] = [];
  #bytes = 0;

  push(event: SessionEvent, size: number): void {
    this.#events.push({ event, size });
    this.#bytes += size;
    if (this.#events.length <= RECENT_EVENTS && this.#bytes <= RECENT_BYTES) return;
    // Drops half of them at once, so that the cost per event is small.
    const most = this.#bytes > RECENT_BYTES ? RECENT_BYTES / 2 : this.#bytes;
    let from = Math.max(0, this.#events.length - RECENT_EVENTS / 2);
    this.#bytes = this.#events.slice(from).reduce((total, one) => total + one.size, 0);
    while (this.#bytes > most && from < this.#events.length) this.#bytes -= this.#events[from++]?.size ?? 0;
    this.#events = this.#events.slice(from);
  }

  /** Events after this number; undefined if some are only in storage. */
  after(seq: number): readonly { readonly event: SessionEvent; readonly size: number }[] | undefined {
    const first = this.#events[0]?.event.seq;
    if (first === undefined || seq + 1 < first) return undefined;
    return this.#events.slice(seq + 1 - first);
  }

  /** Forgets events that were deleted from the log. */
  forget(floor: number): void {
    const first = this.#events[0]?.event.seq ?? floor + 1;
    const gone = this.#events.splice(0, Math.max(0, floor + 1 - first));
    this.#bytes -= gone.reduce((total, { size }) => total + size, 0);
  }

  clear(): void {
    this.#events = [];
    this.#bytes = 0;
  }
}
