/**
 * Detects a server that stopped or disappeared without closing its connections.
 *
 * A request may take long, as code does, so silence alone ends nothing: the client first asks the server for its health.
 */

import { singleFlight } from '../lib/single-flight.ts';
import { CellaError } from '../protocol/errors.ts';
import { aborted, type Socket, type Transport, type TransportRequest } from './transport.ts';

/** The server sends a sign of life every 20 s on what is open. */
export const SILENCE_MS = 60_000;
/** How long it may take to say that it is there. */
const LONGEST_ANSWER_MS = 15_000;

export interface Monitor {
  /** Something came. */
  alive(): void;
  stop(): void;
}

/** Every request of the transport, with an end where the server is silent. */
export class MonitoredTransport implements Transport {
  readonly #inner: Transport;
  readonly #silenceMs: number;
  /** One question for all who wait. */
  readonly #isThere = singleFlight(() => this.#ask());

  constructor(inner: Transport, silenceMs: number) {
    this.#inner = inner;
    this.#silenceMs = silenceMs;
  }

  get address(): string {
    return this.#inner.address;
  }

  get allowsManyConnections(): boolean {
    return this.#inner.allowsManyConnections;
  }

  async request(wanted: TransportRequest): Promise<Response> {
    const gone = new AbortController();
    const listening = this.monitor(() => gone.abort());
    const signal = wanted.signal ? AbortSignal.any([wanted.signal, gone.signal]) : gone.signal;
    try {
      const response = await this.#inner.request({ ...wanted, signal });
      const { body, status, headers } = response;
      if (!body) return response;
      return new Response(this.#heardBody(body, gone), { status, headers });
    } catch (error) {
      if (wanted.signal?.aborted) throw aborted();
      throw gone.signal.aborted ? this.silentError() : error;
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
  monitor(onGone: () => void): Monitor {
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
      alive: () => {
        heardAt = performance.now();
      },
      stop,
    };
  }

  silentError(): CellaError {
    const message = `${this.address} has been silent for ${this.#silenceMs / 1000} s, and does not answer any more.`;
    return new CellaError('SERVER_UNREACHABLE', message, {
      details: { where: this.address, refused: false, silent: true },
    });
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
          const listening = this.monitor(() => gone.abort());
          try {
            const { value, done } = await reader.read();
            if (done) controller.close();
            else controller.enqueue(value);
          } catch (error) {
            throw gone.signal.aborted ? this.silentError() : error;
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
