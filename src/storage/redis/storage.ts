/** RedisStorage: one prefix in a Redis server, which several machines may share. */

import type { BootstrapConfig } from '../bootstrap-config.ts';
import type { Clock, Lock, Storage } from '../contract.ts';
import { fencedStorage } from '../fenced.ts';
import { checkScope, StorageView } from '../view.ts';
import { parseAddress } from './address.ts';
import { problemsOf } from './durability.ts';
import { FencedLine } from './fence.ts';
import { Keys } from './keys.ts';
import { Link } from './link.ts';
import { RedisLocks } from './locks.ts';
import { RedisParts } from './parts.ts';
import type { Place } from './place.ts';

export interface RedisStorageOptions {
  /** Every key begins with it; storages of two prefixes never meet. */
  readonly prefix?: string;
  readonly clock?: Clock;
  /** How long a lock lasts that nobody renews, such as that of a machine that is gone. */
  readonly leaseMs?: number;
}

const LEASE_MS = 30_000;

export class RedisStorage extends RedisParts implements Storage {
  /** For messages: the address without user and password. */
  readonly where: string;
  readonly locks: RedisLocks;
  readonly #link: Link;
  readonly #place: Place;
  #closing: Promise<void> | undefined;

  private constructor(link: Link, place: Place, leaseMs: number) {
    super(place);
    this.#link = link;
    this.#place = place;
    this.where = link.address.where;
    this.locks = new RedisLocks(place, leaseMs);
  }

  /** Fails within a second where the server is not there. From then on, a lost connection is made again by itself. */
  static async open(
    url: string,
    { prefix = 'cella', clock = Date.now, leaseMs = LEASE_MS }: RedisStorageOptions = {},
  ): Promise<RedisStorage> {
    const link = await Link.open(parseAddress(url, prefix));
    return new RedisStorage(link, { link, keys: new Keys(link.address.prefix), clock }, leaseMs);
  }

  fenced(lock: Lock): Storage {
    const link = new FencedLine(this.#link, this.locks.fenceOf(lock));
    return fencedStorage(this, lock, new RedisParts({ ...this.#place, link }));
  }

  scope(name: string): Storage {
    return new StorageView(this, checkScope(name), this.scopes.of(name));
  }

  async deleteScope(name: string): Promise<void> {
    await this.scopes.delete(checkScope(name));
  }

  toBootstrapConfig(): BootstrapConfig {
    const { url, prefix } = this.#link.address;
    return { type: 'redis', url, prefix };
  }

  /** What in the server's setup would lose data, one line each; nothing where all is well. */
  problems(): Promise<string[]> {
    return problemsOf(this.#link);
  }

  override close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    await Promise.all([super.close(), this.locks.close()]);
    await this.#link.close();
  }
}
