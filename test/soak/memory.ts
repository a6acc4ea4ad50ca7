/**
 * What a server keeps in memory. Between two collections of its garbage V8 lets some lie, for minutes where there is
 * room, and its young generation grows by doubling: so the resident memory is read right after a collection, which is
 * asked for by the server's inspector.
 */

import { setTimeout as delay } from 'node:timers/promises';
import type { Served } from '../support/servers/serve-process.ts';

/** For a server that is to be watched. */
export const WATCHED = { nodeFlags: ['--inspect=127.0.0.1:0'] };

/** Freed pages go back to the system by and by. */
const SETTLE_MS = 1000;
const EVERY_MS = 50;
const TELL_MS = 5000;

export class Watch implements Disposable {
  readonly #served: Served;
  readonly #inspector: WebSocket;
  readonly #timer: NodeJS.Timeout;
  #asked = 0;

  private constructor(served: Served, inspector: WebSocket, tell: (mb: number) => void) {
    this.#served = served;
    this.#inspector = inspector;
    this.#timer = setInterval(() => tell(served.residentMb), TELL_MS);
  }

  static async begin(served: Served, tell: (mb: number) => void): Promise<Watch> {
    const [address] = /ws:\/\/127\.0\.0\.1:\S+/.exec(served.started.err) ?? [];
    if (address === undefined) throw new Error('the server has no inspector');
    const inspector = new WebSocket(address);
    await new Promise((resolve, reject) => {
      inspector.addEventListener('open', resolve);
      inspector.addEventListener('error', reject);
    });
    return new Watch(served, inspector, tell);
  }

  /** The least of some samples after a collection, in megabytes. */
  async keptMb(): Promise<number> {
    await this.#collect();
    let least = this.#served.residentMb;
    for (let passed = 0; passed < SETTLE_MS; passed += EVERY_MS) {
      await delay(EVERY_MS);
      least = Math.min(least, this.#served.residentMb);
    }
    return least;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#inspector.close();
  }

  async #collect(): Promise<void> {
    const id = ++this.#asked;
    const done = new Promise<void>((resolve) => {
      const answered = ({ data }: MessageEvent) => {
        if (JSON.parse(String(data)).id !== id) return;
        this.#inspector.removeEventListener('message', answered);
        resolve();
      };
      this.#inspector.addEventListener('message', answered);
    });
    this.#inspector.send(JSON.stringify({ id, method: 'HeapProfiler.collectGarbage' }));
    await done;
  }
}
