/**
 * Notices a server that was stopped, or has gone without a word: its connections stay open, and nothing comes any more.
 *
 * A request may take long, as code does. So silence alone ends nothing: the server is asked whether it is there.
 */

import { CellaError } from '../protocol/errors.ts';
import { aborted, type Socket, type Transport, type TransportRequest } from './transport.ts';

/** The server sends a sign of life every 20 s on what is open. */
export const SILENCE_MS = 60_000;
/** How long it may take to say that it is there. */
const LONGEST_ANSWER_MS = 15_000;

export interface Listening {
  /** Something came. */
  heard(): void;
  stop(): void;
}

/** Every request of the transport, with an end where the server is silent. */
export class ListeningTransport implements Transport {
  readonly #inner: Transport;
  readonly #silenceMs: number;
  #asking: Promise<boolean> | undefined;

  constructor(inner: Transport, silenceMs: number) {
    this.#inner = inner;
    this.#silenceMs = silenceMs;
  }

  get where(): string {
    return this.#inner.where;
  }

  get wide(): boolean {
    return this.#inner.wide;
  }

  async request(wanted: TransportRequest): Promise<Response> {
    const gone = new AbortController();
    const listening = this.listen(() => gone.abort());
    const signal = wanted.signal ? AbortSignal.any([wanted.signal, gone.signal]) : gone.signal;
    try {
      const response = await this.#inner.request({ ...wanted, signal });
      const { body, status, headers } = response;
      if (!body) return response;
      return new Response(this.#heardBody(body, gone), { status, headers });
    } catch (error) {
      if (wanted.signal?.aborted) throw aborted();
      throw gone.signal.aborted ? this.silent() : error;
    } finally {
      listening.stop();
    }
  }

  socket(path: string): Socket | undefined {
    return this.#inner.socket(path);
  }

  close(): void {
    this.#inner.close();
  }

  /** Calls `onGone` once, where nothing was heard for long and the server does not answer. */
  listen(onGone: () => void): Listening {
    let heardAt = performance.now();
    let over = false;
    let timer: ReturnType<typeof setTimeout>;
    const stop = () => {
      over = true;
      clearTimeout(timer);
    };
    const look = async (): Promise<void> => {
      const quietMs = performance.now() - heardAt;
      const there = quietMs < this.#silenceMs || (await this.#isThere());
      if (over) return;
      if (there) wait(quietMs < this.#silenceMs ? this.#silenceMs - quietMs : this.#silenceMs);
      else if (performance.now() - heardAt < quietMs) wait(this.#silenceMs);
      else {
        stop();
        onGone();
      }
    };
    const wait = (ms: number): void => {
      timer = setTimeout(() => void look(), ms);
    };
    wait(this.#silenceMs);
    return {
      heard: () => {
        heardAt = performance.now();
      },
      stop,
    };
  }

  silent(): CellaError {
    const message = `${this.where} has been silent for ${this.#silenceMs / 1000} s, and does not answer any more.`;
    return new CellaError('DAEMON_UNREACHABLE', message, {
      details: { where: this.where, refused: false, silent: true },
    });
  }

  /** One question for all who wait. */
  #isThere(): Promise<boolean> {
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  async #ask(): Promise<boolean> {
    const signal = AbortSignal.timeout(Math.min(LONGEST_ANSWER_MS, this.#silenceMs));
    try {
      const answer = await this.#inner.request({ method: 'GET', path: '/health', headers: {}, signal });
      await answer.body?.cancel();
      return true;
    } catch {
      return false; // whatever it is, it is no answer
    }
  }

  /** Only while somebody reads: whoever does not read hears nothing either. */
  #heardBody(body: ReadableStream<Uint8Array>, gone: AbortController): ReadableStream<Uint8Array> {
    const reader = body.getReader();
    return new ReadableStream(
      {
        pull: async (controller) => {
          const listening = this.listen(() => gone.abort());
          try {
            const { value, done } = await reader.read();
            if (done) controller.close();
            else controller.enqueue(value);
          } catch (error) {
            throw gone.signal.aborted ? this.silent() : error;
          } finally {
            listening.stop();
          }
        },
        cancel: (reason) => reader.cancel(reason),
      },
      { highWaterMark: 0 },
    );
  }
}
