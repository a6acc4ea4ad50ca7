/** RedisStorage: one prefix in a Redis server, which several machines may share. */

import type { BootstrapConfig } from '../bootstrap-config.ts';
import type { Clock, Lock, Storage } from '../contract.ts';
import { checkScope, fencedStorage, ScopedStorage, type ScopedStores } from '../views.ts';
import { RedisArtifacts } from './artifacts.ts';
import { RedisCheckpoints } from './checkpoints.ts';
import { RedisConnection } from './connection.ts';
import { asList, asText, Keys, parseAddress, type RedisContext } from './context.ts';
import { RedisDocuments } from './documents.ts';
import { RedisEventLog } from './event-log.ts';
import { problemsOf } from './health.ts';
import { FencedCommands, RedisLocks } from './locks.ts';
import { RedisDeps, RedisRecords, RedisTexts } from './tables.ts';
import { RedisTranscripts } from './transcripts.ts';

interface RedisScope extends ScopedStores {
  readonly artifacts: RedisArtifacts;
}

/** How many keys the server looks at before it answers. */
const AT_ONCE = '1000';

export class RedisScopes {
  readonly #place: RedisContext;
  readonly #open = new Map<string, RedisScope>();

  constructor(place: RedisContext) {
    this.#place = place;
  }

  of(name: string): RedisScope {
    const known = this.#open.get(name);
    if (known) return known;
    const place = this.#placeOf(name);
    const scope = {
      skills: new RedisTexts(place, 'skills', 'skill'),
      artifacts: new RedisArtifacts(place),
      deps: new RedisDeps(place),
    };
    this.#open.set(name, scope);
    return scope;
  }

  /** Everything that has the scope in its key, also what writers have left that were killed. */
  async delete(name: string): Promise<void> {
    const { artifacts } = this.of(name);
    this.#open.delete(name);
    await artifacts.close();
    const { link, keys } = this.#placeOf(name);
    const pattern = `${literal(keys.of(''))}*`;
    let cursor = '0';
    do {
      const [next, found] = asList(await link.send('SCAN', cursor, 'MATCH', pattern, 'COUNT', AT_ONCE));
      const names = asList(found).map(asText);
      if (names.length > 0) await link.send('UNLINK', ...names);
      cursor = asText(next);
    } while (cursor !== '0');
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open.values()].map(({ artifacts }) => artifacts.close()));
  }

  #placeOf(name: string): RedisContext {
    return { ...this.#place, keys: this.#place.keys.scoped(name) };
  }
}

/** In a pattern, what stands for itself. */
const literal = (text: string): string => text.replace(/[\\*?[\]^-]/g, '\\$&');

export class RedisStores {
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

  constructor(place: RedisContext) {
    this.checkpoints = new RedisCheckpoints(place);
    this.records = new RedisRecords(place);
    this.events = new RedisEventLog(place);
    this.transcripts = new RedisTranscripts(place);
    this.tools = new RedisTexts(place, 'tools', 'tool');
    this.skills = new RedisTexts(place, 'skills', 'skill');
    this.artifacts = new RedisArtifacts(place);
    this.deps = new RedisDeps(place);
    this.documents = new RedisDocuments(place);
    this.scopes = new RedisScopes(place);
  }

  async deleteAgent(agentKey: string): Promise<void> {
    await this.checkpoints.deleteAll(agentKey);
    await this.events.delete(agentKey);
    await this.transcripts.deleteAll(agentKey);
    await this.records.delete(agentKey);
  }

  /** Drops what is not finished. */
  async close(): Promise<void> {
    await Promise.all([this.checkpoints.close(), this.artifacts.close(), this.scopes.close()]);
  }
}

export interface RedisStorageOptions {
  /** Every key begins with it; storages of two prefixes never meet. */
  readonly prefix?: string;
  readonly clock?: Clock;
  /** How long a lock lasts that nobody renews, such as that of a machine that is gone. */
  readonly leaseMs?: number;
}

const LEASE_MS = 30_000;

export class RedisStorage extends RedisStores implements Storage {
  /** For messages: the address without user and password. */
  readonly where: string;
  readonly locks: RedisLocks;
  readonly #link: RedisConnection;
  readonly #place: RedisContext;
  #closing: Promise<void> | undefined;

  private constructor(link: RedisConnection, place: RedisContext, leaseMs: number) {
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
    const link = await RedisConnection.open(parseAddress(url, prefix));
    return new RedisStorage(link, { link, keys: new Keys(link.address.prefix), clock }, leaseMs);
  }

  fenced(lock: Lock): Storage {
    const link = new FencedCommands(this.#link, this.locks.fenceOf(lock));
    return fencedStorage(this, lock, new RedisStores({ ...this.#place, link }));
  }

  scope(name: string): Storage {
    return new ScopedStorage(this, checkScope(name), this.scopes.of(name));
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
