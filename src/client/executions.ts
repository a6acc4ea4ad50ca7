/** The code that is given to a session here: sent in its order, and followed to its ending. */

import { ReadOutput } from '../protocol/api/execution-routes.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ExecutionEvent, ResultEvent } from '../protocol/execution-events.ts';
import type { SessionInfo } from '../protocol/session-info.ts';
import type * as api from '../session/api.ts';
import { type Answerable, Answers } from './answers.ts';
import { RemoteExecution } from './execution.ts';
import { toExecutionEvents } from './execution-events.ts';
import type { Link } from './link.ts';
import { aborted } from './transport.ts';

/** How long a server has to stop what was begun here. */
const STOPPING_MS = 5000;

export interface ExecutionsParts {
  readonly link: Link;
  readonly info: SessionInfo;
  readonly resumeMs: number;
  readonly closing: AbortSignal;
  readonly session: Answerable;
  readonly stopWhenGone: boolean;
}

export class RemoteExecutions {
  readonly #parts: ExecutionsParts;
  readonly #answers: Answers;
  /** The next goes when the one before was accepted. */
  #sent: Promise<unknown> = Promise.resolve();
  /** Those that are not over, the oldest first. */
  readonly #live = new Set<RemoteExecution>();

  constructor(parts: ExecutionsParts) {
    this.#parts = parts;
    this.#answers = new Answers(parts.session);
  }

  async run(code: string, { onEvent, onInput, ...options }: api.RunOptions): Promise<ResultEvent> {
    let failure: { readonly error: unknown } | undefined;
    for await (const event of this.#begin(code, options)) {
      if (event.type === 'input_request') void this.#answers.give(event, onInput);
      try {
        onEvent?.(event);
      } catch (error) {
        // The caller's own mistake is the caller's to hear of, when the code is done.
        failure ??= { error };
      }
      if (event.type !== 'result') continue;
      if (failure) throw failure.error;
      return event;
    }
    throw new CellaError('EXECUTION_LOST', 'The execution ended without a result.');
  }

  stream(code: string, options: api.ExecuteOptions): AsyncGenerator<ExecutionEvent> {
    return this.#answers.whileRead(this.#begin(code, options));
  }

  /** It is on its way when this returns. */
  #begin(code: string, options: api.ExecuteOptions): AsyncGenerator<ExecutionEvent, void, undefined> {
    if (this.#parts.closing.aborted) throw closedHere();
    if (typeof code !== 'string') throw new CellaError('INVALID_OPTIONS', `The code must be text, not ${typeof code}.`);
    const { link, info, resumeMs, closing, stopWhenGone } = this.#parts;
    const params = { id: info.id };
    const parts = { link, sessionId: info.id, code, options, resumeMs, closing };
    const execution = new RemoteExecution({ ...parts, ...(stopWhenGone ? { stopWhenGone } : {}) });
    this.#live.add(execution);
    const first = untilAborted(this.#sent, options.signal).then(() => execution.send());
    first.catch(() => {}); // told to who reads
    const over = Promise.withResolvers<void>();
    // Where few connections can be open, one execution has one.
    const done = link.wide ? first : first.then(() => over.promise);
    const before = this.#sent;
    this.#sent = done.then(
      () => {},
      () => before,
    );
    const events = toExecutionEvents({
      events: execution.events(first),
      result: () => execution.result(),
      read: (file, offset) =>
        link.open(ReadOutput, { params: { ...params, file }, query: { offset }, signal: closing }),
      limit: info.settings.outputLimitBytes ?? 0,
      resumeMs,
    });
    return ending(events, () => {
      this.#live.delete(execution);
      over.resolve();
    });
  }

  /** The one that was begun here before the others. False where there is none. */
  async interrupt(): Promise<boolean> {
    const [first] = this.#live;
    return (await first?.interrupt()) ?? false;
  }

  /** All that was begun here and is not over. A server that does not answer cannot be told. */
  async stop(): Promise<void> {
    const late = AbortSignal.timeout(STOPPING_MS);
    const given = new Promise<void>((resolve) => late.addEventListener('abort', () => resolve(), { once: true }));
    await Promise.race([this.#interruptAll().catch(() => {}), given]);
  }

  async #interruptAll(): Promise<void> {
    // The last first, so that none of them begins.
    for (const execution of [...this.#live].toReversed()) await execution.interrupt();
  }
}

export function closedHere(): CellaError {
  return new CellaError('SESSION_CLOSED', 'The session was closed here.');
}

async function* ending<T>(
  events: AsyncGenerator<T, void, undefined>,
  over: () => void,
): AsyncGenerator<T, void, undefined> {
  try {
    yield* events;
  } finally {
    over();
  }
}

/** Waits for what comes before, unless it is aborted first. A signal may be that of many executions: nothing stays with it. */
async function untilAborted(before: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const leave = () => reject(aborted());
  if (signal?.aborted) leave();
  signal?.addEventListener('abort', leave, { once: true });
  await Promise.race([before, promise]).finally(() => signal?.removeEventListener('abort', leave));
}
