/**
 * Detects a server that stopped or disappeared without closing its connections.
 *
 * A request may run code for a long time, so silence alone is no failure: the client first checks the server's health.
 * On WebSockets and streams, the server sends heartbeats at an interval that it announces. If they stop, the connection is
 * broken, even if the server answers on another one. On a WebSocket only whole frames count, because neither browsers nor
 * Node report partial ones. An event has at most 256 KB, which any usable connection delivers within a minute.
 */

import { singleFlight } from '../lib/single-flight.ts';
import { HEARTBEAT_HEADER } from '../protocol/api/route.ts';
import { CellaError } from '../protocol/errors.ts';
import { aborted, type Socket, type Transport, type TransportRequest } from './transport.ts';

/** The server sends a heartbeat every 20 s on open connections. */
export const SILENCE_MS = 60_000;
/** How many heartbeats may be missed. */
const MOST_MISSED = 3;
/** How long the server may take to answer a health check. */
const LONGEST_ANSWER_MS = 15_000;

export interface Monitor {
  /** Data arrived. */
  alive(): void;
  /** The server announced that it sends heartbeats at this interval. */
  expectEvery(ms: number): void;
  stop(): void;
}

/** Wraps a transport, and ends its requests if the server is gone. */
export class MonitoredTransport implements Transport {
  readonly #inner: Transport;
  readonly #silenceMs: number;
  /** The last announced heartbeat interval. Without one, no heartbeats are expected. */
  #everyMs = Number.POSITIVE_INFINITY;
  /** All waiting requests share one health check. */
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
    const listening = this.monitor((error) => gone.abort(error));
    if (wanted.answersAtOnce) listening.expectEvery(this.#everyMs);
    const signal = wanted.signal ? AbortSignal.any([wanted.signal, gone.signal]) : gone.signal;
    try {
      const response = await this.#inner.request({ ...wanted, signal });
      const { body, status, headers } = response;
      if (!body) return response;
      return new Response(this.#heardBody(body, headers.get(HEARTBEAT_HEADER), gone), { status, headers });
    } catch (error) {
      if (wanted.signal?.aborted) throw aborted();
      throw gone.signal.aborted ? gone.signal.reason : error;
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

  /** Calls `onGone` once, if after a long silence the server does not answer or promised heartbeats are missing. */
  monitor(onGone: (error: CellaError) => void): Monitor {
    let heardAt = performance.now();
    const silenceMs = this.#silenceMs;
    /** A connection with heartbeats is broken if it is silent for longer. */
    let mostQuietMs = Number.POSITIVE_INFINITY;
    let over = false;
    let timer: ReturnType<typeof setTimeout>;
    const stop = () => {
      over = true;
      clearTimeout(timer);
    };
    const look = async (): Promise<void> => {
      const quietMs = performance.now() - heardAt;
      if (quietMs < silenceMs) return wait(silenceMs - quietMs);
      // This wait also lets data be read that arrived while this process was busy.
      const isThere = await this.#isThere();
      if (over) return;
      const wasHeard = performance.now() - heardAt < quietMs;
      if (wasHeard) return wait(silenceMs);
      if (isThere && quietMs < mostQuietMs) return wait(Math.min(silenceMs, mostQuietMs - quietMs));
      stop();
      onGone(this.#silentError(quietMs, isThere));
    };
    const wait = (ms: number): void => {
      timer = setTimeout(() => void look(), ms);
    };
    wait(silenceMs);
    return {
      alive: () => {
        heardAt = performance.now();
      },
      expectEvery: (ms) => {
        this.#everyMs = ms;
        mostQuietMs = MOST_MISSED * ms;
      },
      stop,
    };
  }

  #silentError(quietMs: number, isThere: boolean): CellaError {
    const seconds = Math.round(quietMs / 1000);
    const message = isThere
      ? `A connection to ${this.address} has been silent for ${seconds} s: it is broken, although the server answers.`
      : `${this.address} has been silent for ${seconds} s, and does not answer any more.`;
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
      return false; // any error means no answer
    }
  }

  /** Monitors the body only during a read: without one, no data arrives. */
  #heardBody(
    body: ReadableStream<Uint8Array>,
    announced: string | null,
    gone: AbortController,
  ): ReadableStream<Uint8Array> {
    const reader = body.getReader();
    const everyMs = Number(announced);
    return new ReadableStream(
      {
        pull: async (controller) => {
          const listening = this.monitor((error) => gone.abort(error));
          if (everyMs > 0) listening.expectEvery(everyMs);
          try {
            const { value, done } = await reader.read();
            if (done) controller.close();
            else controller.enqueue(value);
          } catch (error) {
            throw gone.signal.aborted ? gone.signal.reason : error;
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
