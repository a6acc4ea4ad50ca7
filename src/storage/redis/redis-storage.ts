/** RedisStorage: one prefix in a Redis server, which several machines can share. */

import type { BootstrapConfig, Clock, Lock, Storage } from '../contract.ts';
import { checkScope, deleteKeyFrom, fencedStorage, type ScopedStores, scopedStorage } from '../views.ts';
import { RedisArtifacts } from './artifact-store.ts';
import { RedisCheckpoints } from './checkpoint-store.ts';
import { problemsOf, RedisConnection } from './connection.ts';
import { RedisDocuments } from './documents.ts';
import { RedisEventLog } from './event-log.ts';
import { FencedCommands, RedisLocks } from './locks.ts';
import { asList, asText, parseAddress, type RedisContext, RedisKeys } from './redis-context.ts';
import { RedisDeps, RedisRecords, RedisTexts } from './tables.ts';
import { RedisTranscripts } from './transcripts.ts';

interface RedisScope extends ScopedStores {
  readonly artifacts: RedisArtifacts;
}

/** How many keys the server examines per reply. */
const AT_ONCE = '1000';

/** Scopes: the keys of their skills, artifacts and deps contain the name of the scope. */
class RedisScopes {
  readonly #context: RedisContext;
  readonly #open = new Map<string, RedisScope>();

  constructor(context: RedisContext) {
    this.#context = context;
  }

  of(name: string): RedisScope {
    const known = this.#open.get(name);
    if (known) return known;
    const context = this.#contextOf(name);
    const scope = {
      skills: new RedisTexts(context, 'skills', 'skill'),
      artifacts: new RedisArtifacts(context),
      deps: new RedisDeps(context),
    };
    this.#open.set(name, scope);
    return scope;
  }

  /** Deletes every key of the scope, including leftovers of killed writers. */
  async delete(name: string): Promise<void> {
    const { artifacts } = this.of(name);
    this.#open.delete(name);
    await artifacts.close();
    const { redis, keys } = this.#contextOf(name);
    const pattern = `${literal(keys.of(''))}*`;
    let cursor = '0';
    do {
      const [next, found] = asList(await redis.send('SCAN', cursor, 'MATCH', pattern, 'COUNT', AT_ONCE));
      const names = asList(found).map(asText);
      if (names.length > 0) await redis.send('UNLINK', ...names);
      cursor = asText(next);
    } while (cursor !== '0');
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open.values()].map(({ artifacts }) => artifacts.close()));
  }

  #contextOf(name: string): RedisContext {
    return { ...this.#context, keys: this.#context.keys.scoped(name) };
  }
}

/** Escapes a text for use in a pattern. */
const literal = (text: string): string => text.replace(/[\\*?[\]^-]/g, '\\$&');

/** The stores on one connection, fenced or not. */
class RedisStores {
  readonly checkpoints: RedisCheckpoints;
  readonly records: RedisRecords;
  readonly events: RedisEventLog;
  readonly transcripts: RedisTranscripts;
  readonly tools: RedisTexts;
  readonly skills: RedisTexts;
  readonly artifacts: RedisArtifacts;
  readonly deps: RedisDeps;
  readonly documents: RedisDocuments;
  readonly scopes: RedisScopes;

  constructor(context: RedisContext) {
    this.checkpoints = new RedisCheckpoints(context);
    this.records = new RedisRecords(context);
    this.events = new RedisEventLog(context);
    this.transcripts = new RedisTranscripts(context);
    this.tools = new RedisTexts(context, 'tools', 'tool');
    this.skills = new RedisTexts(context, 'skills', 'skill');
    this.artifacts = new RedisArtifacts(context);
    this.deps = new RedisDeps(context);
    this.documents = new RedisDocuments(context);
    this.scopes = new RedisScopes(context);
  }

  deleteKey(agentKey: string): Promise<void> {
    return deleteKeyFrom(this, agentKey);
  }

  /** Drops unfinished writes. */
  async close(): Promise<void> {
    await Promise.all([this.checkpoints.close(), this.artifacts.close(), this.scopes.close()]);
  }
}

export interface RedisStorageOptions {
  /** Every key begins with it. Storages with different prefixes share no data. */
  readonly prefix?: string;
  readonly clock?: Clock;
  /** How long a lock lasts without renewal, for example if its machine is gone. */
  readonly leaseMs?: number;
}

const LEASE_MS = 30_000;

export class RedisStorage extends RedisStores implements Storage {
  /** For messages: the address without user and password. */
  readonly where: string;
  readonly locks: RedisLocks;
  readonly #connection: RedisConnection;
  readonly #context: RedisContext;
  #closing: Promise<void> | undefined;

  private constructor(redis: RedisConnection, context: RedisContext, leaseMs: number) {
    super(context);
    this.#connection = redis;
    this.#context = context;
    this.where = redis.address.where;
    this.locks = new RedisLocks(context, leaseMs);
  }

  /** Fails within a second if there is no server. Later it reconnects automatically. */
  static async open(
    url: string,
    { prefix = 'cella', clock = Date.now, leaseMs = LEASE_MS }: RedisStorageOptions = {},
  ): Promise<RedisStorage> {
    const redis = await RedisConnection.open(parseAddress(url, prefix));
    return new RedisStorage(redis, { redis, keys: new RedisKeys(redis.address.prefix), clock }, leaseMs);
  }

  fenced(lock: Lock): Storage {
    const redis = new FencedCommands(this.#connection, this.locks.fenceOf(lock));
    return fencedStorage(this, lock, new RedisStores({ ...this.#context, redis }));
  }

  scope(name: string): Storage {
    return scopedStorage(this, checkScope(name), this.scopes.of(name));
  }

  async deleteScope(name: string): Promise<void> {
    await this.scopes.delete(checkScope(name));
  }

  toBootstrapConfig(): BootstrapConfig {
    const { url, prefix } = this.#connection.address;
    return { type: 'redis', url, prefix };
  }

  /** Server settings that would lose data, one line each; empty if there are none. */
  problems(): Promise<string[]> {
    return problemsOf(this.#connection);
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
    await this.#connection.close();
  }
}
