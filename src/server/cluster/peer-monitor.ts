/** Watches servers that requests were forwarded to. If one is gone or does not respond, what waits for it is aborted. */

interface PeerWatch extends Disposable {
  /** Aborts when the server is gone. */
  readonly gone: AbortSignal;
}

export interface PeerAddress {
  readonly id: string;
  readonly url: string;
}

interface PeerMonitorOptions {
  /** Whether it holds the lock of its name. A suspended process may keep that for long. */
  readonly isAlive: (id: string) => Promise<boolean>;
  /** Whether it answers a request, even if busy. */
  readonly answers: (other: PeerAddress, signal: AbortSignal) => Promise<boolean>;
}

interface WatchedPeer {
  readonly other: PeerAddress;
  readonly gone: AbortController;
  users: number;
  /** The time of its last answer. */
  answeredAt: number;
  asking: boolean;
}

const CHECK_MS = 1000;
/** How long after its last answer to ask again, and how long it may stay silent in total. */
const ASK_AFTER_MS = 10_000;
const IDLE_TIMEOUT_MS = 30_000;

export class ClusterPeerMonitor implements Disposable {
  readonly #options: PeerMonitorOptions;
  readonly #watches = new Map<string, WatchedPeer>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: PeerMonitorOptions) {
    this.#options = options;
  }

  /** Watches until the result is disposed. Disposing is idempotent. */
  watch(other: PeerAddress): PeerWatch {
    const { id } = other;
    const fresh = { other, gone: new AbortController(), users: 0, answeredAt: performance.now(), asking: false };
    const watch: WatchedPeer = this.#watches.get(id) ?? fresh;
    this.#watches.set(id, watch);
    watch.users++;
    this.#timer ??= setTimeout(() => void this.#check(), CHECK_MS).unref();
    let watched = true;
    return {
      gone: watch.gone.signal,
      [Symbol.dispose]: () => {
        if (watched && --watch.users === 0 && this.#watches.get(id) === watch) this.#watches.delete(id);
        watched = false;
      },
    };
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#watches.clear();
  }

  async #check(): Promise<void> {
    await Promise.all([...this.#watches].map(([id, watch]) => this.#checkPeer(id, watch)));
    this.#timer = this.#watches.size > 0 ? setTimeout(() => void this.#check(), CHECK_MS).unref() : undefined;
  }

  async #checkPeer(id: string, watch: WatchedPeer): Promise<void> {
    const idleMs = performance.now() - watch.answeredAt;
    if (idleMs >= IDLE_TIMEOUT_MS) {
      return this.#giveUp(id, watch, `it has not answered for ${IDLE_TIMEOUT_MS / 1000} s`);
    }
    if (idleMs >= ASK_AFTER_MS && !watch.asking) void this.#ask(watch);
    // A failure of storage says nothing about other servers.
    if (await this.#options.isAlive(id).catch(() => true)) return;
    this.#giveUp(id, watch, 'it has ended');
  }

  async #ask(watch: WatchedPeer): Promise<void> {
    watch.asking = true;
    const deadline = AbortSignal.timeout(ASK_AFTER_MS);
    const answered = await this.#options.answers(watch.other, deadline).catch(() => false); // counts as no answer
    watch.asking = false;
    if (answered) watch.answeredAt = performance.now();
  }

  #giveUp(id: string, watch: WatchedPeer, why: string): void {
    if (this.#watches.get(id) === watch) this.#watches.delete(id);
    watch.gone.abort(new Error(why));
  }
}
