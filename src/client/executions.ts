/** The code that is given to a session here: sent in its order, followed to its ending, and answered where it asks. */

import { CellaError } from '../protocol/errors.ts';
import type { ExecutionEvent, InputRequestEvent } from '../protocol/events.ts';
import { ReadOutput } from '../protocol/http/execution-routes.ts';
import type { SessionInfo } from '../protocol/http/sessions.ts';
import type * as api from '../session/api.ts';
import { RemoteExecution } from './execution.ts';
import { toExecutionEvents } from './execution-events.ts';
import { isCode } from './failure.ts';
import type { Link } from './link.ts';
import { aborted } from './transport.ts';

const NO_ONE = 'input() was called, but nobody is there to answer: pass `onInput` to run(), or read stream()';
const NO_READER = 'input() was called, but nobody reads the events of this cell any more';

export interface ExecutionsParts {
  readonly link: Link;
  readonly info: SessionInfo;
  readonly resumeMs: number;
  readonly closing: AbortSignal;
  readonly session: Pick<api.SessionApi, 'answerInput' | 'cancelInput'>;
  readonly stopWhenGone: boolean;
}

export class RemoteExecutions {
  readonly #parts: ExecutionsParts;
  /** The next goes when the one before was accepted. */
  #sent: Promise<unknown> = Promise.resolve();
  /** Those that are not over, the oldest first. */
  readonly #live = new Set<RemoteExecution>();

  constructor(parts: ExecutionsParts) {
    this.#parts = parts;
  }

  /** It is on its way when this returns. */
  begin(code: string, options: api.ExecuteOptions): AsyncGenerator<ExecutionEvent, void, undefined> {
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

  /** All that was begun here and is not over. */
  async stop(): Promise<void> {
    // The last first, so that none of them begins.
    for (const execution of [...this.#live].toReversed()) await execution.interrupt();
  }

  /** For a reader who leaves, the code goes on; nobody is there to answer it then. */
  async *attended(events: AsyncGenerator<ExecutionEvent, void, undefined>): AsyncGenerator<ExecutionEvent> {
    let over = false;
    let asked: InputRequestEvent | undefined;
    try {
      while (true) {
        const { value: event, done } = await events.next().catch((error) => {
          over = true;
          throw error;
        });
        if (done) {
          over = true;
          return;
        }
        if (event.type === 'input_request') asked = event;
        yield event;
      }
    } finally {
      if (!over) void this.#attend(events, asked);
    }
  }

  async #attend(
    events: AsyncGenerator<ExecutionEvent, void, undefined>,
    asked: InputRequestEvent | undefined,
  ): Promise<void> {
    try {
      if (asked) await this.#refuse(asked);
      for await (const event of events) if (event.type === 'input_request') await this.#refuse(event);
    } catch {
      // Nobody is there to be told.
    }
  }

  /** Somebody else may have answered meanwhile. */
  async #refuse({ id }: InputRequestEvent): Promise<void> {
    await this.#parts.session.cancelInput(id, NO_READER).catch(() => {});
  }

  async answer(request: InputRequestEvent, onInput: api.RunOptions['onInput']): Promise<void> {
    try {
      if (onInput) await this.#parts.session.answerInput(request.id, await onInput(request));
      else await this.#parts.session.cancelInput(request.id, NO_ONE);
    } catch (error) {
      if (isCode(error, 'INPUT_NOT_PENDING')) return;
      // Answered meanwhile, or the cell tells what is wrong.
      await this.#parts.session.cancelInput(request.id, `the answer failed: ${error}`).catch(() => {});
    }
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
