/**
 * The servers that share a storage: their addresses, and the sessions with a kernel there. A server counts as alive while it
 * holds the lock of its name, so not after it was killed or suspended for long.
 */

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import type { DocumentStore, Lock, Storage } from '../../storage/contract.ts';

const PEERS = 'daemons';
const SECRETS = 'daemon-secrets';
const SECRET = 'hops';

const Peer = z.object({
  url: z.url(),
  version: z.string(),
  /** The sessions with a live kernel there, and the kernel's state. */
  live: z.record(z.string(), z.enum(['idle', 'running'])),
});
export type Peer = z.infer<typeof Peer>;

type States = ReadonlyMap<string, SessionInfo['state']>;

interface PeerAnnouncement {
  readonly url: string;
  readonly version: string;
  /** The current sessions with live kernels. */
  readonly live: () => Promise<Peer['live']>;
}

/** How often the server checks for changes to publish. */
const PUBLISH_MS = 1000;

export class Peers implements AsyncDisposable {
  readonly id: string;
  readonly forwardSigner: ForwardSigner;
  /** Identifies the shared storage. Another storage, or one that was emptied, has another id. */
  readonly storageId: string;
  readonly #storage: Storage;
  readonly #lock: Lock;
  #published = '';
  #publishTimer: NodeJS.Timeout | undefined;
  #last: Promise<void> = Promise.resolve();

  private constructor(storage: Storage, lock: Lock, secret: string) {
    this.#storage = storage;
    this.#lock = lock;
    this.id = storage.locks.id;
    this.forwardSigner = new ForwardSigner(secret);
    this.storageId = createHash('sha256').update(secret).digest('hex');
  }

  static async join(storage: Storage): Promise<Peers> {
    await using stack = new AsyncDisposableStack();
    const lock = stack.use(await storage.locks.acquire(lockOf(storage.locks.id)));
    const peers = new Peers(storage, lock, await secretOf(storage.documents));
    await peers.#sweep();
    stack.move();
    return peers;
  }

  /** From now on, other servers forward requests for the sessions of this one. */
  async announce(facts: PeerAnnouncement): Promise<void> {
    await this.#publish(facts);
    // Others may have removed this server's entry while it was suspended.
    this.#lock.watch(() => {
      this.#published = '';
    });
    this.#publishTimer = setInterval(() => {
      // If storage fails, it is published the next time.
      this.#last = this.#last.then(() => this.#publish(facts)).catch(() => {});
    }, PUBLISH_MS).unref();
  }

  /** Undefined if no such server is alive. */
  async find(id: string): Promise<Peer | undefined> {
    const found = await this.#storage.documents.get(PEERS, id);
    const peer = Peer.safeParse(found?.value);
    return peer.success && (await this.isAlive(id)) ? peer.data : undefined;
  }

  async isAlive(id: string): Promise<boolean> {
    return (await this.#storage.locks.ownerOf(lockOf(id))) !== undefined;
  }

  /** The states of the kernels of all other servers. */
  async states(): Promise<States> {
    const states = new Map<string, SessionInfo['state']>();
    for (const { id, value } of await this.#all()) {
      const peer = Peer.safeParse(value);
      if (id === this.id || !peer.success || !(await this.isAlive(id))) continue;
      for (const [session, state] of Object.entries(peer.data.live)) states.set(session, state);
    }
    return states;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#publishTimer);
    await this.#last;
    // If storage fails, both expire or are swept later.
    await this.#storage.documents.delete(PEERS, this.id).catch(() => {});
    await this.#lock.release().catch(() => {});
  }

  async #publish({ url, version, live }: PeerAnnouncement): Promise<void> {
    const peer: Peer = { url, version, live: await live() };
    const text = JSON.stringify(peer);
    if (text === this.#published) return;
    await this.#storage.documents.put(PEERS, this.id, peer);
    this.#published = text;
  }

  async #sweep(): Promise<void> {
    for (const { id } of await this.#all()) {
      if (!(await this.isAlive(id))) await this.#storage.documents.delete(PEERS, id);
    }
  }

  async #all(): Promise<readonly { readonly id: string; readonly value: unknown }[]> {
    return (await this.#storage.documents.list(PEERS, { limit: 1000 })).documents;
  }
}

/** No agent key can be equal to this. */
const lockOf = (id: string): string => `\0daemon ${id}`;

/** The first server creates it. */
async function secretOf(documents: DocumentStore): Promise<string> {
  await documents.put(SECRETS, SECRET, { secret: randomBytes(32).toString('base64url') }, { ifRevision: 0 });
  const kept = z.object({ secret: z.string().min(43) }).safeParse((await documents.get(SECRETS, SECRET))?.value);
  if (kept.success) return kept.data.secret;
  throw new CellaError('STORAGE_FAILED', `The secret of the servers in storage (${SECRETS}/${SECRET}) cannot be read.`);
}

interface Watched extends Disposable {
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

interface Watch {
  readonly other: PeerAddress;
  readonly gone: AbortController;
  users: number;
  /** The time of its last answer. */
  answeredAt: number;
  asking: boolean;
}

const LOOK_MS = 1000;
/** How long after its last answer to ask again, and how long it may stay silent in total. */
const ASK_AFTER_MS = 10_000;
const IDLE_TIMEOUT_MS = 30_000;

/** Watches servers that requests were forwarded to. If one is gone or does not respond, what waits for it is aborted. */
export class ClusterPeerMonitor implements Disposable {
  readonly #options: PeerMonitorOptions;
  readonly #watches = new Map<string, Watch>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: PeerMonitorOptions) {
    this.#options = options;
  }

  /** Watches until the result is disposed. Disposing is idempotent. */
  watch(other: PeerAddress): Watched {
    const { id } = other;
    const fresh = { other, gone: new AbortController(), users: 0, answeredAt: performance.now(), asking: false };
    const watch: Watch = this.#watches.get(id) ?? fresh;
    this.#watches.set(id, watch);
    watch.users++;
    this.#timer ??= setTimeout(() => void this.#look(), LOOK_MS).unref();
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

  async #look(): Promise<void> {
    await Promise.all([...this.#watches].map(([id, watch]) => this.#lookAt(id, watch)));
    this.#timer = this.#watches.size > 0 ? setTimeout(() => void this.#look(), LOOK_MS).unref() : undefined;
  }

  async #lookAt(id: string, watch: Watch): Promise<void> {
    const idleMs = performance.now() - watch.answeredAt;
    if (idleMs >= IDLE_TIMEOUT_MS) {
      return this.#giveUp(id, watch, `it has not answered for ${IDLE_TIMEOUT_MS / 1000} s`);
    }
    if (idleMs >= ASK_AFTER_MS && !watch.asking) void this.#ask(watch);
    // A failure of storage says nothing about other servers.
    if (await this.#options.isAlive(id).catch(() => true)) return;
    this.#giveUp(id, watch, 'it has ended');
  }

  async #ask(watch: Watch): Promise<void> {
    watch.asking = true;
    const deadline = AbortSignal.timeout(ASK_AFTER_MS);
    const answered = await this.#options.answers(watch.other, deadline).catch(() => false); // counts as no answer
    watch.asking = false;
    if (answered) watch.answeredAt = performance.now();
  }

  #giveUp(id: string, watch: Watch, why: string): void {
    if (this.#watches.get(id) === watch) this.#watches.delete(id);
    watch.gone.abort(new Error(why));
  }
}

export const FORWARD_HEADER = 'x-cella-hop';

const ForwardMark = z.strictObject({
  /** The server that forwarded it. */
  from: z.string().max(200),
  /** The address of the client. */
  client: z.string().max(100),
});
export type ForwardMark = z.infer<typeof ForwardMark>;

/** The only request that the mark is valid for. */
interface MarkedRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly authorization?: string | undefined;
  readonly cookie?: string | undefined;
}

const HEADER = /^([A-Za-z0-9_-]{1,600})\.([A-Za-z0-9_-]{43})$/;

export class ForwardSigner {
  readonly #secret: string;

  constructor(secret: string) {
    this.#secret = secret;
  }

  sign(request: MarkedRequest, hop: ForwardMark): string {
    const text = Buffer.from(JSON.stringify(hop)).toString('base64url');
    return `${text}.${this.#mac(request, text).toString('base64url')}`;
  }

  /** Undefined if there is no valid mark. */
  read(request: MarkedRequest, header: string | undefined): ForwardMark | undefined {
    const [, text, mac] = HEADER.exec(header ?? '') ?? [];
    if (text === undefined || mac === undefined) return undefined;
    if (!timingSafeEqual(this.#mac(request, text), Buffer.from(mac, 'base64url'))) return undefined;
    return ForwardMark.parse(JSON.parse(Buffer.from(text, 'base64url').toString()));
  }

  #mac({ method, path, authorization = '', cookie = '' }: MarkedRequest, text: string): Buffer {
    const signed = JSON.stringify([text, method, path, authorization, cookie]);
    return createHmac('sha256', this.#secret).update(signed).digest();
  }
}
