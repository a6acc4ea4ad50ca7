/**
 * The connection to a Redis server. A call waits a moment for a connection that is being made, and fails as soon as it
 * is known that there is none; what is under way when the connection is lost fails and is not sent again. It comes back
 * by itself.
 */

import type * as Redis from '@redis/client';
import { CellaError } from '../../protocol/errors.ts';
import type { Address } from './address.ts';
import { type Client, loadRedis, newClient } from './client.ts';
import { reasonOf, refused, unreachable } from './failure.ts';
import type { Line } from './place.ts';
import type { Argument, Reply } from './reply.ts';
import type { Script } from './script.ts';
import { Silence } from './silence.ts';

const PATIENCE_MS = 900;

export class Link implements Line {
  readonly address: Address;
  readonly #redis: typeof Redis;
  readonly #silence: Silence;
  readonly #waiting = new Set<(problem: CellaError | undefined) => void>();
  readonly #pending = new Set<Promise<Reply>>();
  #client: Client;
  #closed = false;

  private constructor(redis: typeof Redis, address: Address) {
    this.address = address;
    this.#redis = redis;
    this.#silence = new Silence(
      () => newClient(redis, address),
      () => this.#startOver(),
    );
    this.#client = this.#connect();
  }

  static async open(address: Address): Promise<Link> {
    const link = new Link(await loadRedis(), address);
    try {
      // A connection alone proves nothing: the server may want a password, or be stuck.
      await link.send('PING');
      return link;
    } catch (error) {
      await link.close();
      throw error;
    }
  }

  send(...args: Argument[]): Promise<Reply> {
    return this.#underWay(() => this.#send(args));
  }

  run({ text, sha1 }: Script, keys: readonly string[], args: readonly Argument[]): Promise<Reply> {
    const rest = [String(keys.length), ...keys, ...args];
    return this.#underWay(async () => {
      try {
        return await this.#send(['EVALSHA', sha1, ...rest]);
      } catch (error) {
        // The server forgets scripts when it restarts.
        if (!(error instanceof CellaError && error.details?.reason === 'NOSCRIPT')) throw error;
        return await this.#send(['EVAL', text, ...rest]);
      }
    });
  }

  /** What was asked for before is carried out, or fails within a second. May be called again. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#pending);
    this.#client.destroy();
  }

  async #underWay(work: () => Promise<Reply>): Promise<Reply> {
    if (this.#closed) {
      throw new CellaError('STORAGE_FAILED', `Cannot use Redis at ${this.address.where}: the storage is closed.`);
    }
    this.#client.ref();
    const reply = work();
    this.#pending.add(reply);
    try {
      return await reply;
    } finally {
      this.#pending.delete(reply);
      // A connection that nobody waits for does not keep the process.
      if (this.#pending.size === 0) this.#client.unref();
    }
  }

  async #send(args: Argument[]): Promise<Reply> {
    if (!this.#client.isReady) await this.#ready();
    try {
      return await this.#silence.watch(this.#client.sendCommand<Reply>(args));
    } catch (cause) {
      throw this.#failure(cause);
    }
  }

  #connect(): Client {
    const client = newClient(this.#redis, this.address);
    client.on('ready', () => this.#tell(undefined));
    client.on('error', (error) => this.#tell(this.#failure(error)));
    client.connect().catch(() => {}); // told by `error`
    return client;
  }

  #startOver(): void {
    const gone = this.#client;
    this.#client = this.#connect();
    gone.destroy();
  }

  /** Resolves once there is a connection; fails with the reason once it is known that there is none. */
  async #ready(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<CellaError | undefined>();
    this.#waiting.add(resolve);
    const giveUp = () => resolve(unreachable(this.address.where, 'no answer'));
    // What has arrived while this process was busy is read first.
    const late = setTimeout(() => setImmediate(giveUp), PATIENCE_MS);
    try {
      const problem = this.#client.isReady ? undefined : await promise;
      if (problem) throw problem;
    } finally {
      clearTimeout(late);
      this.#waiting.delete(resolve);
    }
  }

  #tell(problem: CellaError | undefined): void {
    for (const told of this.#waiting) told(problem);
  }

  #failure(cause: unknown): CellaError {
    const { where } = this.address;
    return cause instanceof this.#redis.ErrorReply
      ? refused(where, cause.message)
      : unreachable(where, reasonOf(cause));
  }
}
