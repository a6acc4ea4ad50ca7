/** One reader of a session log: past events from storage, then new ones from memory. */

import { onAbort } from '../../lib/abort.ts';
import { inSlices } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import { isExecutionEnd, type SessionEvent, SessionEventBody, type StreamItem } from '../../protocol/session-events.ts';
import { type EventLog, type LoggedEvent, PAGE_CHARACTERS } from '../../storage/contract.ts';
import type { SessionEnding } from '../sessions/session-ending.ts';
import type { EventStreamOptions } from '../sessions/session-types.ts';
import type { SessionLog } from './session-log.ts';

const PAGE_EVENTS = 500;
/** What a page takes with its last event, which may be twice as large, and with what is made of it to send. */
const PAGE_BYTES = 8 * PAGE_CHARACTERS;

interface EventStreamSource {
  readonly log: EventLog;
  readonly key: string;
  readonly writer: SessionLog;
  /** Why no more events come. The reader gets the error. */
  readonly ending: Pick<SessionEnding, 'why'>;
}

export function readEvents(source: EventStreamSource, options: EventStreamOptions): AsyncIterableIterator<StreamItem> {
  return new EventIterator(source, options);
}

interface PageInProgress {
  readonly after: number;
  readonly events: AsyncGenerator<SessionEvent, void, undefined>;
}

type Step = IteratorResult<StreamItem, undefined>;
const DONE: Step = { done: true, value: undefined };

/**
 * An iterator and not a generator, and one call for each step: a generator and a loop keep their last event in memory while
 * they wait, and thousands of readers may wait.
 */
class EventIterator implements AsyncIterableIterator<StreamItem> {
  readonly #source: EventStreamSource;
  readonly #options: EventStreamOptions;
  readonly #open = new DisposableStack();
  #hasBegun = false;
  #isOver = false;
  #position: number;
  #page: PageInProgress | undefined;
  /** The next event, if the events before it were deleted. */
  #next: SessionEvent | undefined;
  #wake: () => void = () => {};

  constructor(source: EventStreamSource, options: EventStreamOptions) {
    this.#source = source;
    this.#options = options;
    this.#position = options.after ?? 0;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<Step> {
    try {
      this.#begin();
      for (;;) {
        const step = this.#isDone ? DONE : await this.#step();
        if (step?.done) await this.return();
        if (step) return step;
      }
    } catch (error) {
      await this.return();
      throw error;
    }
  }

  async return(): Promise<Step> {
    this.#isOver = true;
    this.#wake();
    this.#open.dispose();
    await this.#page?.events.return();
    return DONE;
  }

  get #isDone(): boolean {
    return this.#isOver || this.#options.signal?.aborted === true;
  }

  #begin(): void {
    if (this.#hasBegun || this.#isOver) return;
    this.#hasBegun = true;
    const { writer } = this.#source;
    const onChange = () => this.#wake();
    this.#open.defer(writer.listen(onChange));
    this.#open.use(onAbort(this.#options.signal, onChange));
    if (this.#position > writer.state.last) throw notYet(this.#position, writer.state.last);
  }

  /** Undefined if there may be more. */
  async #step(): Promise<Step | undefined> {
    const { writer } = this.#source;
    if (this.#next) return this.#take(this.#next);
    if (this.#page) return await this.#readPage(this.#page);
    if (this.#position >= writer.state.last) return await this.#awaitMore();
    this.#page = { after: this.#position, events: pageAfter(this.#position, this.#source, this.#options) };
    return undefined;
  }

  async #awaitMore(): Promise<Step | undefined> {
    const { writer, ending } = this.#source;
    const { why } = ending;
    if (why instanceof CellaError) throw why;
    if (why || this.#hasEnded) return DONE;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    if (this.#position >= writer.state.last && !this.#isDone && !ending.why) await promise;
    return undefined;
  }

  async #readPage({ after, events }: PageInProgress): Promise<Step | undefined> {
    const { done, value: event } = await events.next();
    if (this.#isDone) return DONE;
    if (!done) {
      const isNext = event.seq === this.#position + 1;
      if (isNext) return this.#take(event);
      // Events that a slow reader has not read may have been deleted.
      this.#next = event;
      return { value: { type: 'trimmed', throughSeq: event.seq - 1 } };
    }
    this.#page = undefined;
    return this.#position > after ? undefined : await this.#skipDeleted();
  }

  #take(event: SessionEvent): Step | undefined {
    this.#next = undefined;
    this.#position = event.seq;
    if (isEndOf(event, this.#options)) this.#isOver = true;
    return matchesFilter(event, this.#options) ? { value: event } : undefined;
  }

  async #skipDeleted(): Promise<Step> {
    const { log, key, ending } = this.#source;
    const before = this.#position;
    if (ending.why === 'deleted') return DONE;
    this.#position = Math.max(before, await log.floor(key));
    if (this.#position === before) throw new CellaError('STORAGE_FAILED', `The log of the session ends at ${before}.`);
    return { value: { type: 'trimmed', throughSeq: this.#position } };
  }

  /** Whether no event of the filter follows. */
  get #hasEnded(): boolean {
    const { execution, turn } = this.#options;
    const { state } = this.#source.writer;
    return (execution !== undefined && !state.isOpen(execution)) || (turn !== undefined && !state.isTurnOpen(turn));
  }
}

function isEndOf(event: SessionEvent, { execution, turn }: ExecutionOrTurn): boolean {
  if (execution !== undefined && isExecutionEnd(event) && event.execution === execution) return true;
  return turn !== undefined && event.type === 'turn_ended' && event.turn === turn;
}

interface ExecutionOrTurn {
  readonly execution?: string | undefined;
  readonly turn?: string | undefined;
}

/** Whether it belongs to the execution or turn of the filter. */
export function matchesFilter(event: SessionEvent, { execution, turn }: ExecutionOrTurn): boolean {
  return (execution === undefined || isPartOf(event, execution)) && (turn === undefined || isOfTurn(event, turn));
}

/** Background output is not part of the execution, though it may be logged before the end. */
function isPartOf(event: SessionEvent, execution: string): boolean {
  return 'execution' in event && event.execution === execution && !('background' in event && event.background);
}

function isOfTurn(event: SessionEvent, turn: string): boolean {
  return 'turn' in event && event.turn === turn;
}

/** From memory if it has them all, else from storage. */
async function* pageAfter(
  seq: number,
  { log, key, writer }: EventStreamSource,
  { memory, signal }: EventStreamOptions,
): AsyncGenerator<SessionEvent, void, undefined> {
  // A reader that waits for room holds nothing.
  using page = await memory?.reserve(PAGE_BYTES, signal);
  if (memory && !page) return;
  const live = writer.recent.after(seq);
  // Only up to the newest durable event.
  const limit = Math.min(PAGE_EVENTS, writer.state.last - seq);
  if (live) {
    page?.resize(live.reduce((sum, { size }) => sum + size, 0));
    for await (const { event } of inSlices(live)) yield event;
  } else for await (const logged of log.read(key, { after: seq, limit, onePage: true })) yield toEvent(logged);
}

/** `at`: when it happened, if the event says so, else when it was written. */
export function toEvent({ seq, at, event }: LoggedEvent): SessionEvent {
  const own = typeof event === 'object' && event !== null && 'at' in event ? Number(event.at) : at;
  const body = SessionEventBody.safeParse(withCurrentNames(event));
  if (body.success) return { seq, at: own, ...body.data };
  throw new CellaError('STORAGE_FAILED', `Event ${seq} of the session cannot be read: ${body.error.message}.`);
}

/** Earlier versions wrote `woken` for `resumed` and `names` for `variables`. */
function withCurrentNames(event: unknown): unknown {
  if (typeof event !== 'object' || event === null) return event;
  if ('woken' in event) return { ...event, resumed: event.woken };
  if ('names' in event) return { ...event, variables: event.names };
  return event;
}

function notYet(after: number, last: number): CellaError {
  return new CellaError('INVALID_REQUEST', `There is no event ${after} yet: the last is ${last}.`, {
    details: { after, last },
  });
}
