/** What the code asks of the host while it runs: input, and calls that the host carries out. Within bounds, each replied to once. */

import { encodeValue } from '../protocol/encode-value.ts';
import type { ExecutionEvent, ProgressEvent } from '../protocol/events.ts';
import { FRAME_COST, type Frame, FrameError, FrameType } from '../protocol/frames.ts';
import { type InputCall, parseInputCall } from '../protocol/kernel.ts';
import type { PyValue } from '../protocol/values.ts';
import type { KernelBudget } from './budget.ts';
import { Calls } from './calls.ts';
import type { Execution } from './execution.ts';
import { type CallHandler, HostCalls } from './host-calls.ts';
import type { FrameLink } from './link.ts';
import type { Outputs } from './outputs.ts';

/** A kernel keeps to fewer; one that does not is cut off. */
const MOST_CALLS = 256;
/** What the reply to a call is reckoned to take until it is known: all that a kernel calls at once has room. */
const REPLY_COST = 1024 * 1024;
/** More than a kernel can number. */
const REQUESTS = 2 ** 32;
const NO_READER = 'input() was called, but nobody reads the events of this cell any more';

export interface RequestParts {
  readonly link: Pick<FrameLink, 'sendSlowly'>;
  readonly outputs: Pick<Outputs, 'reached' | 'release'>;
  readonly budget: Pick<KernelBudget, 'take' | 'give' | 'hasRoom' | 'readerHasRoom'>;
  /** Carries out what the code asks for, beside input(). Without it such calls are refused. */
  readonly handler: CallHandler | undefined;
  /** Counts the kernels of a session: an answer to a question of one that is dead must not reach another. */
  readonly generation: number;
  running(): Execution | undefined;
  progress(event: ProgressEvent): void;
  /** Whether the code waits for a person: that is not its own time. */
  asking(waits: boolean): void;
  /** There is room: a call that waits may go on. */
  room(): void;
}

export class Requests {
  readonly #parts: RequestParts;
  readonly #firstRequest: number;
  readonly #inputs: Calls;
  readonly #hostCalls: HostCalls;
  /** By the number of its call: what the prompt of each takes. */
  readonly #prompts = new Map<number, number>();
  /** Host calls that ask somebody right now. */
  #asking = 0;

  constructor(parts: RequestParts) {
    this.#parts = parts;
    this.#firstRequest = parts.generation * REQUESTS;
    this.#inputs = new Calls((id, reply) => {
      this.#forgetPrompt(id);
      this.#asked();
      const answer = 'error' in reply ? { error: ['INPUT', 'runtime', reply.error] } : { value: reply.value };
      void this.#reply(id, encodeValue(answer));
    });
    this.#hostCalls = new HostCalls(parts.handler, {
      reply: (id, payload, reckoned) => {
        parts.budget.give('calls', reckoned);
        return this.#reply(id, payload);
      },
      progress: (task, text) => parts.progress({ type: 'progress', task, text }),
      asking: (begins) => {
        this.#asking += begins ? 1 : -1;
        if (begins) parts.asking(true);
        else this.#asked();
      },
    });
  }

  answerInput(id: number, text: string): void {
    this.#inputs.reply(id - this.#firstRequest, { value: text });
  }

  cancelInput(id: number, reason: string): void {
    this.#inputs.reply(id - this.#firstRequest, { error: reason });
  }

  /** False where it must wait. */
  take(frame: Frame, [method, params]: [string, PyValue]): boolean {
    if (this.#inputs.has(frame.id) || this.#hostCalls.has(frame.id)) {
      throw new FrameError(`a second call with the number ${frame.id}`);
    }
    if (this.#inputs.size + this.#hostCalls.size >= MOST_CALLS) throw new FrameError('too many calls at once');
    if (!this.#parts.budget.hasRoom('calls', 1)) return false;
    if (method === 'input') return this.#input(frame.id, parseInputCall(params));
    const reckoned = Math.max(frame.payload.length + FRAME_COST, REPLY_COST);
    this.#parts.budget.take('calls', reckoned);
    this.#hostCalls.start({ id: frame.id, method, params, reckoned });
    return true;
  }

  /** The code gave up waiting. */
  giveUp(id: number): void {
    this.#hostCalls.cancel(id);
    if (this.#inputs.has(id)) this.#inputs.reply(id, { error: 'the code no longer waits' });
  }

  /** Nobody will ever hear of these requests. */
  refuseUnread(events: readonly ExecutionEvent[]): void {
    for (const event of events) {
      if (event.type !== 'input_request') continue;
      const id = event.id - this.#firstRequest;
      if (this.#inputs.has(id)) this.#inputs.reply(id, { error: NO_READER });
    }
  }

  /** A thread may still wait in input(), and nobody hears of it any more. */
  cellEnded(): void {
    this.#inputs.replyAll({ error: 'the cell ended before input() was answered' });
  }

  /** Nobody is there to hear a reply to input() any more. */
  forgetInputs(): void {
    this.#inputs.forget();
    for (const id of [...this.#prompts.keys()]) this.#forgetPrompt(id);
  }

  close(): void {
    this.#hostCalls.close();
  }

  #input(id: number, call: InputCall): boolean {
    const { outputs, running, asking } = this.#parts;
    const execution = running();
    if (execution?.number !== call.execution) {
      this.#inputs.add(id);
      this.#inputs.reply(id, { error: 'input() was called while no cell was running' });
      return true;
    }
    // A question is an event too: it waits for a reader that is slow, or the code could ask without end.
    if (!outputs.reached(call.marks) || !this.#parts.budget.readerHasRoom) return false;
    outputs.release(call.marks);
    const size = 2 * call.prompt.length + FRAME_COST;
    this.#parts.budget.take('kept', size);
    this.#prompts.set(id, size);
    this.#inputs.add(id, execution.settings.inputTimeoutMs);
    if (execution.events.abandoned) {
      this.#inputs.reply(id, { error: NO_READER });
      return true;
    }
    asking(true);
    const { prompt, password } = call;
    execution.ask({ type: 'input_request', id: this.#firstRequest + id, prompt, password });
    return true;
  }

  #forgetPrompt(id: number): void {
    this.#parts.budget.give('kept', this.#prompts.get(id) ?? 0);
    this.#prompts.delete(id);
  }

  /** A question was answered: where it was the last one, the cell's time goes on. */
  #asked(): void {
    if (this.#inputs.size === 0 && this.#asking === 0) this.#parts.asking(false);
  }

  /** Code that asks and does not read its replies must not fill the host's memory with them: its next calls wait. */
  async #reply(id: number, payload: Buffer): Promise<void> {
    const size = payload.length + FRAME_COST;
    this.#parts.budget.take('calls', size);
    await this.#parts.link.sendSlowly(FrameType.reply, id, payload);
    this.#parts.budget.give('calls', size);
    this.#parts.room();
  }
}
