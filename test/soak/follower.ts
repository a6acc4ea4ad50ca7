/** A client that follows a session on a WebSocket and keeps what it was told: each event must come once and in order. */

import { WebSocket } from 'ws';
import type { SessionEvent } from '../../src/protocol/session-events.ts';

export interface FollowOptions {
  readonly url: string;
  readonly token: string;
  readonly session: string;
  /** The number of the last event that it has. */
  readonly after?: number;
  /** Told of each event as it comes, instead of keeping it. */
  readonly onEvent?: (event: SessionEvent) => void;
}

export class Follower implements Disposable {
  readonly session: string;
  readonly seen: SessionEvent[] = [];
  /** The number of the last event that it has. */
  last: number;
  /** Resolves with the code that the connection ended with. */
  readonly closed: Promise<number>;
  readonly opened: Promise<void>;
  readonly #socket: WebSocket;
  readonly #waiting: { readonly seq: number; readonly reached: PromiseWithResolvers<void> }[] = [];
  #fault: Error | undefined;

  constructor({ url, token, session, after = 0, onEvent }: FollowOptions) {
    this.session = session;
    this.last = after;
    const address = `${url.replace('http', 'ws')}/v1/sessions/${session}/ws?after=${after}`;
    this.#socket = new WebSocket(address, { headers: { authorization: `Bearer ${token}` } });
    this.#socket.on('error', () => {}); // told by its end
    const opened = Promise.withResolvers<void>();
    this.opened = opened.promise;
    opened.promise.catch(() => {}); // whoever does not wait for it
    this.#socket.on('message', (data) => {
      opened.resolve();
      this.#take(JSON.parse(String(data)), onEvent);
    });
    this.closed = new Promise((resolve) => {
      this.#socket.on('close', (code) => {
        const gone = new Error(`following ${session} ended with ${code} after event ${this.last}`);
        opened.reject(gone);
        this.#fail(gone);
        resolve(code);
      });
    });
  }

  /** Resolves when it has this event; fails where something came twice, out of order or not at all. */
  async reached(seq: number): Promise<void> {
    if (this.#fault) throw this.#fault;
    if (this.last >= seq) return;
    const reached = Promise.withResolvers<void>();
    this.#waiting.push({ seq, reached });
    await reached.promise;
  }

  /** What was wrong with what it was told; the end of the connection is no fault. */
  get disorder(): Error | undefined {
    return this.#fault instanceof Disorder ? this.#fault : undefined;
  }

  [Symbol.dispose](): void {
    this.#socket.terminate();
  }

  #take(frame: SessionEvent | { type: string; seq?: undefined }, onEvent?: (event: SessionEvent) => void): void {
    if (frame.type === 'hello' || frame.type === 'heartbeat') return;
    if (frame.seq === undefined || frame.seq !== this.last + 1) {
      const what = JSON.stringify(frame).slice(0, 200);
      this.#fail(new Disorder(`${this.session}: after event ${this.last} came ${what}`));
      return;
    }
    this.last = frame.seq;
    if (onEvent) onEvent(frame);
    else this.seen.push(frame);
    while ((this.#waiting[0]?.seq ?? Infinity) <= this.last) this.#waiting.shift()?.reached.resolve();
  }

  #fail(fault: Error): void {
    this.#fault ??= fault;
    for (const { reached } of this.#waiting.splice(0)) reached.reject(fault);
  }
}

class Disorder extends Error {}
