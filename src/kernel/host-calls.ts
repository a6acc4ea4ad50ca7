/** Calls of the code that the host carries out: each runs on its own, is replied to once, and can be given up. */

import { giveWay } from '../lib/event-loop.ts';
import { encodeValue, ValueEncoder } from '../protocol/encode-value.ts';
import { CellaError, errorCodes } from '../protocol/errors.ts';
import type { PyValue } from '../protocol/values.ts';

/** What the work may do beside its reply. */
export interface HostCallContext {
  /** Aborted when the code no longer waits, or is dead. */
  readonly signal: AbortSignal;
  progress(text: string): void;
  whileAsking<T>(work: () => Promise<T>): Promise<T>;
}

/** Carries out what the code of one kernel asks for. What it throws is told to the code. */
export interface CallHandler {
  call(method: string, params: PyValue, context: HostCallContext): Promise<PyValue>;
  /** The kernel is gone: nothing that it has opened is needed any more. */
  close(): void;
}

export interface HostCall {
  readonly id: number;
  readonly method: string;
  readonly params: PyValue;
  /** How many bytes it is reckoned to hold with its reply. */
  readonly reckoned: number;
}

export interface HostCallEvents {
  /** Resolves when the kernel has taken it, or is gone. */
  reply(id: number, payload: Buffer, reckoned: number): Promise<void>;
  progress(method: string, text: string): void;
  /** Whether somebody is being asked right now. */
  asking(begins: boolean): void;
}

/** How Python tells refusals apart: by the class of the exception that it raises. */
type Kind = 'value' | 'lookup' | 'permission' | 'timeout' | 'runtime';

/** Their replies may be large: one after the other, so that the host holds one of them at a time. */
const BULKY: ReadonlySet<string> = new Set(['artifacts.read', 'artifacts.list', 'skills.list', 'skills.search']);
/** More than the largest `output_limit` of a tool. */
const MOST_REPLY_BYTES = 80 * 1024 * 1024;

export class HostCalls {
  readonly #handler: CallHandler | undefined;
  readonly #events: HostCallEvents;
  readonly #running = new Map<number, AbortController>();
  #bulky: Promise<void> = Promise.resolve();

  constructor(handler: CallHandler | undefined, events: HostCallEvents) {
    this.#handler = handler;
    this.#events = events;
  }

  get size(): number {
    return this.#running.size;
  }

  has(id: number): boolean {
    return this.#running.has(id);
  }

  start({ id, method, params, reckoned }: HostCall): void {
    const controller = new AbortController();
    this.#running.set(id, controller);
    const work = async () => {
      if (!this.#running.has(id)) return;
      const reply = await this.#perform(method, params, controller.signal);
      // A kernel that is dead hears nothing any more.
      if (this.#running.delete(id)) await this.#events.reply(id, reply, reckoned);
    };
    if (BULKY.has(method)) this.#bulky = this.#bulky.then(work);
    else void work();
  }

  /** The code no longer waits. It hears of the end all the same, so that the number is free again. */
  cancel(id: number): void {
    this.#running.get(id)?.abort(new CellaError('ABORTED', 'The code no longer waits for this call.'));
  }

  close(): void {
    const all = [...this.#running.values()];
    this.#running.clear();
    for (const controller of all) controller.abort(new CellaError('KERNEL_DIED', 'The kernel that asked is dead.'));
    this.#handler?.close();
  }

  async #perform(method: string, params: PyValue, signal: AbortSignal): Promise<Buffer> {
    const context: HostCallContext = {
      signal,
      progress: (text) => this.#events.progress(method, text),
      whileAsking: async (work) => {
        this.#events.asking(true);
        try {
          return await work();
        } finally {
          this.#events.asking(false);
        }
      },
    };
    try {
      if (!this.#handler) throw new CellaError('INVALID_OPTIONS', `Nothing answers ${method} here.`);
      return await encodeInSlices(method, await this.#handler.call(method, params, context));
    } catch (error) {
      return encodeRefusal(error);
    }
  }
}

/** A small one at once; a large one does not keep others from their turn. */
async function encodeInSlices(method: string, value: PyValue): Promise<Buffer> {
  const encoder = new ValueEncoder({ value });
  while (!encoder.step() && encoder.length <= MOST_REPLY_BYTES) await giveWay();
  if (encoder.length <= MOST_REPLY_BYTES) return encoder.bytes;
  const message = `What ${method} gives is more than ${MOST_REPLY_BYTES} bytes, too large for one reply. Ask for less of it.`;
  throw new CellaError('INVALID_OPTIONS', message);
}

function encodeRefusal(error: unknown): Buffer {
  if (!(error instanceof CellaError)) {
    // A mistake of ours: the operator learns all of it, the code that there was one, and nothing of the host's insides.
    process.emitWarning(error instanceof Error ? error : new Error(String(error)));
    return encodeValue({ error: ['INTERNAL', 'runtime', 'The host failed to carry this out, and has said why.'] });
  }
  return encodeValue({ error: [error.code, kindOf(error), error.message] });
}

function kindOf({ code }: CellaError): Kind {
  const { http } = errorCodes[code];
  if (http === 404) return 'lookup';
  if (http === 403) return 'permission';
  if (http === 504) return 'timeout';
  return http < 500 ? 'value' : 'runtime';
}
