/** RedisStorage: one prefix in a Redis server, which several machines may share. */

import type { BootstrapConfig } from '../../protocol/bootstrap.ts';
import type { Clock, Storage } from '../contract.ts';
import { checkScope, StorageView } from '../view.ts';
import { parseAddress } from './address.ts';
import { RedisArtifacts } from './artifacts.ts';
import { RedisCheckpoints } from './checkpoints.ts';
import { RedisDeps } from './deps.ts';
import { RedisDocuments } from './documents.ts';
import { problemsOf } from './durability.ts';
import { RedisEventLog } from './event-log.ts';
import { Keys } from './keys.ts';
import { Link } from './link.ts';
import { RedisLocks } from './locks.ts';
import type { Place } from './place.ts';
import { RedisRecords } from './records.ts';
import { RedisScopes } from './scopes.ts';
import { RedisTexts } from './texts.ts';
import { RedisTranscripts } from './transcripts.ts';

export interface RedisStorageOptions {
  /** Every key begins with it; storages of two prefixes never meet. */
  readonly prefix?: string;
  readonly clock?: Clock;
}

export class RedisStorage implements Storage {
  /** For messages: the address without user and password. */
  readonly where: string;
  readonly checkpoints: RedisCheckpoints;
  readonly records: RedisRecords;
  readonly events: RedisEventLog;
  readonly locks: RedisLocks;
  readonly transcripts: RedisTranscripts;
  readonly tools: RedisTexts;
  readonly skills: RedisTexts;
  readonly artifacts: RedisArtifacts;
  readonly deps: RedisDeps;
  readonly documents: RedisDocuments;
  readonly #link: Link;
  readonly #scopes: RedisScopes;
  #closing: Promise<void> | undefined;

  private constructor(link: Link, clock: Clock) {
    const place: Place = { link, keys: new Keys(link.address.prefix), clock };
    this.#link = link;
    this.where = link.address.where;
    this.checkpoints = new RedisCheckpoints(place);
    this.records = new RedisRecords(place);
    this.events = new RedisEventLog(place);
    this.locks = new RedisLocks(place);
    this.transcripts = new RedisTranscripts(place);
    this.tools = new RedisTexts(place, 'tools', 'tool');
    this.skills = new RedisTexts(place, 'skills', 'skill');
    this.artifacts = new RedisArtifacts(place);
    this.deps = new RedisDeps(place);
    this.documents = new RedisDocuments(place);
    this.#scopes = new RedisScopes(place);
  }

  /** Fails within a second where the server is not there. From then on, a lost connection is made again by itself. */
  static async open(
    url: string,
    { prefix = 'cella', clock = Date.now }: RedisStorageOptions = {},
  ): Promise<RedisStorage> {
    return new RedisStorage(await Link.open(parseAddress(url, prefix)), clock);
  }

  scope(name: string): Storage {
    return new StorageView(this, checkScope(name), this.#scopes.of(name));
  }

  async deleteScope(name: string): Promise<void> {
    await this.#scopes.delete(checkScope(name));
  }

  toBootstrapConfig(): BootstrapConfig {
    const { url, prefix } = this.#link.address;
    return { type: 'redis', url, prefix };
  }

  async deleteAgent(agentKey: string): Promise<void> {
    await this.checkpoints.deleteAll(agentKey);
    await this.events.delete(agentKey);
    await this.transcripts.deleteAll(agentKey);
    await this.records.delete(agentKey);
  }

  /** What in the server's setup would lose data, one line each; nothing where all is well. */
  problems(): Promise<string[]> {
    return problemsOf(this.#link);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    await Promise.all([this.checkpoints.close(), this.artifacts.close(), this.#scopes.close(), this.locks.close()]);
    await this.#link.close();
  }
}
