/**
 * The servers that share a storage: where each can be reached, and which sessions have a kernel there. A server is there
 * as long as it holds the lock of its own name, so that one that was killed, or stopped for long, is not.
 */

import { createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import type { DocumentStore, Lock, Storage } from '../../storage/contract.ts';
import { Hops } from './hop.ts';

const PEERS = 'daemons';
const SECRETS = 'daemon-secrets';
const SECRET = 'hops';

const Peer = z.object({
  url: z.url(),
  version: z.string(),
  /** The sessions that have a live kernel there, and what it does. */
  live: z.record(z.string(), z.enum(['idle', 'running'])),
});
export type Peer = z.infer<typeof Peer>;

type States = ReadonlyMap<string, SessionInfo['state']>;

interface Facts {
  readonly url: string;
  readonly version: string;
  /** The sessions with live kernels, as they are now. */
  readonly live: () => Promise<Peer['live']>;
}

/** How often it is looked whether there is something else to tell. */
const TELL_MS = 1000;

export class Peers implements AsyncDisposable {
  readonly id: string;
  readonly hops: Hops;
  /** Which storage it is that they share: another one, or one that was emptied, has another. */
  readonly storageId: string;
  readonly #storage: Storage;
  readonly #lock: Lock;
  #told = '';
  #telling: NodeJS.Timeout | undefined;
  #last: Promise<void> = Promise.resolve();

  private constructor(storage: Storage, lock: Lock, secret: string) {
    this.#storage = storage;
    this.#lock = lock;
    this.id = storage.locks.id;
    this.hops = new Hops(secret);
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

  /** From here on others send here what is for the sessions that this server has. */
  async announce(facts: Facts): Promise<void> {
    await this.#tell(facts);
    // While it stood still, others may have taken it for one that has ended.
    this.#lock.watch(() => {
      this.#told = '';
    });
    this.#telling = setInterval(() => {
      // Storage that is away is told the next time.
      this.#last = this.#last.then(() => this.#tell(facts)).catch(() => {});
    }, TELL_MS).unref();
  }

  /** Undefined where there is no such server, or none any more. */
  async find(id: string): Promise<Peer | undefined> {
    const found = await this.#storage.documents.get(PEERS, id);
    const peer = Peer.safeParse(found?.value);
    return peer.success && (await this.isThere(id)) ? peer.data : undefined;
  }

  async isThere(id: string): Promise<boolean> {
    return (await this.#storage.locks.holder(lockOf(id))) !== undefined;
  }

  /** What the kernels of all other servers do. */
  async states(): Promise<States> {
    const states = new Map<string, SessionInfo['state']>();
    for (const { id, value } of await this.#all()) {
      const peer = Peer.safeParse(value);
      if (id === this.id || !peer.success || !(await this.isThere(id))) continue;
      for (const [session, state] of Object.entries(peer.data.live)) states.set(session, state);
    }
    return states;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#telling);
    await this.#last;
    // Where storage is away, both end by themselves or are swept.
    await this.#storage.documents.delete(PEERS, this.id).catch(() => {});
    await this.#lock.release().catch(() => {});
  }

  async #tell({ url, version, live }: Facts): Promise<void> {
    const peer: Peer = { url, version, live: await live() };
    const text = JSON.stringify(peer);
    if (text === this.#told) return;
    await this.#storage.documents.put(PEERS, this.id, peer);
    this.#told = text;
  }

  async #sweep(): Promise<void> {
    for (const { id } of await this.#all()) {
      if (!(await this.isThere(id))) await this.#storage.documents.delete(PEERS, id);
    }
  }

  async #all(): Promise<readonly { readonly id: string; readonly value: unknown }[]> {
    return (await this.#storage.documents.list(PEERS, { limit: 1000 })).documents;
  }
}

/** No agent can have such a key. */
const lockOf = (id: string): string => `\0daemon ${id}`;

/** Made by the first of them. */
async function secretOf(documents: DocumentStore): Promise<string> {
  await documents.put(SECRETS, SECRET, { secret: randomBytes(32).toString('base64url') }, { ifRevision: 0 });
  const kept = z.object({ secret: z.string().min(43) }).safeParse((await documents.get(SECRETS, SECRET))?.value);
  if (kept.success) return kept.data.secret;
  throw new CellaError('STORAGE_FAILED', `The secret of the servers in storage (${SECRETS}/${SECRET}) cannot be read.`);
}
