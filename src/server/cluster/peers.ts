/**
 * The servers that share a storage: their addresses, and the sessions with a kernel there. A server counts as alive while it
 * holds the lock of its name, so not after it was killed or suspended for long.
 */

import { createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import type { DocumentStore, Lock, Storage } from '../../storage/contract.ts';
import { ForwardSigner } from './forward-signer.ts';

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
