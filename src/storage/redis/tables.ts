/** Records, deps and texts: stores with one Redis hash each. */

import { randomUUID } from 'node:crypto';
import { giveWay, inSlices, sortedInSlices } from '../../lib/event-loop.ts';
import { checkName } from '../../protocol/namespace-models.ts';
import { checkPackageName, parseRequirement } from '../../protocol/requirement.ts';
import type { DepsStore, ListRecords, RecordStore, StoredText, TextStore } from '../contract.ts';
import type { SessionRecord } from '../session-record.ts';
import { checkText, type FoundRecord, parseRecord, RecordLists, readRecord, recordText } from '../validation.ts';
import {
  asList,
  asNumber,
  asTextIfAny,
  quoted,
  type RedisContext,
  readHash,
  readOrder,
  script,
  unquoted,
} from './redis-context.ts';

/** Histories are long. */
const RECORDS_AT_ONCE = 10;

const PUT_RECORD = script(`
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  redis.call('ZADD', KEYS[2], redis.call('INCR', KEYS[3]), ARGV[1])
end
return 1
`);

const DELETE_RECORD = script(`
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('HDEL', KEYS[1], ARGV[1])
`);

export class RedisRecords extends RecordLists implements RecordStore {
  readonly #context: RedisContext;
  readonly #keys: readonly [texts: string, order: string, count: string];

  constructor(context: RedisContext) {
    super();
    this.#context = context;
    this.#keys = [context.keys.of('records'), context.keys.of('records-order'), context.keys.of('records-count')];
  }

  async get(agentKey: string): Promise<SessionRecord | undefined> {
    const { redis } = this.#context;
    const text = asTextIfAny(await redis.send('HGET', this.#keys[0], quoted(agentKey)));
    if (text === undefined) return undefined;
    return readRecord(text, agentKey, `Redis at ${redis.address.where}`);
  }

  async put(agentKey: string, record: SessionRecord): Promise<void> {
    const text = recordText(agentKey, record);
    await this.#context.redis.run(PUT_RECORD, this.#keys, [quoted(agentKey), text]);
  }

  async delete(agentKey: string): Promise<boolean> {
    return asNumber(await this.#context.redis.run(DELETE_RECORD, this.#keys, [quoted(agentKey)])) > 0;
  }

  protected async *all(which: ListRecords['which'] = () => true): AsyncGenerator<FoundRecord> {
    const { redis } = this.#context;
    const fields: string[] = [];
    for await (const field of readOrder(redis, this.#keys[1])) {
      await giveWay();
      if (which(unquoted(field))) fields.push(field);
    }
    for (let at = 0; at < fields.length; at += RECORDS_AT_ONCE) {
      const page = fields.slice(at, at + RECORDS_AT_ONCE);
      const texts = asList(await redis.send('HMGET', this.#keys[0], ...page)).map(asTextIfAny);
      for (const [index, field] of page.entries()) {
        const text = texts[index];
        await giveWay();
        // Deleted since the fields were read.
        if (text !== undefined) yield { agentKey: unquoted(field), parsed: parseRecord(text) };
      }
    }
  }
}

const ADD_REQUIREMENT = script(`
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
`);

export class RedisDeps implements DepsStore {
  readonly #context: RedisContext;
  readonly #key: string;

  constructor(context: RedisContext) {
    this.#context = context;
    this.#key = context.keys.of('deps');
  }

  async list(): Promise<string[]> {
    const pairs = [...(await readHash(this.#context.redis, this.#key))];
    const sorted = await sortedInSlices(pairs, ([one], [other]) => (one < other ? -1 : 1));
    const requirements: string[] = [];
    for await (const [, requirement] of inSlices(sorted)) requirements.push(requirement.toString());
    return requirements;
  }

  async add(requirement: string): Promise<boolean> {
    const { name, text } = parseRequirement(requirement);
    return asNumber(await this.#context.redis.run(ADD_REQUIREMENT, [this.#key], [name, text])) === 1;
  }

  async remove(name: string): Promise<boolean> {
    return asNumber(await this.#context.redis.send('HDEL', this.#key, checkPackageName(name))) === 1;
  }
}

/** ARGV: name, value, a new version, and `1` if the name must be free. */
const PUT_TEXT = script(`
if ARGV[4] == '1' and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('SET', KEYS[2], ARGV[3])
return 1
`);

const DELETE_TEXT = script(`
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return 1
`);

export class RedisTexts implements TextStore {
  readonly #context: RedisContext;
  readonly #what: string;
  readonly #keys: readonly [texts: string, version: string];

  /** `part` is in the key: "tools"; `what` is for messages: "tool". */
  constructor(context: RedisContext, part: string, what: string) {
    this.#context = context;
    this.#what = what;
    this.#keys = [context.keys.of(part), context.keys.of(`${part}-version`)];
  }

  async list(): Promise<StoredText[]> {
    const texts: StoredText[] = [];
    for await (const [name, value] of inSlices(await readHash(this.#context.redis, this.#keys[0]))) {
      texts.push(this.#toText(name, value.toString()));
    }
    return await sortedInSlices(texts, (one, other) => (one.name < other.name ? -1 : 1));
  }

  async get(name: string): Promise<StoredText | undefined> {
    const checked = checkName(name, this.#what);
    const value = asTextIfAny(await this.#context.redis.send('HGET', this.#keys[0], checked));
    return value === undefined ? undefined : this.#toText(checked, value);
  }

  async put(name: string, text: string, { ifAbsent = false }: { readonly ifAbsent?: boolean } = {}): Promise<boolean> {
    const checked = checkName(name, this.#what);
    checkText(this.#what, checked, text);
    const value = `${Math.trunc(this.#context.clock())} ${text}`;
    const args = [checked, value, randomUUID(), ifAbsent ? '1' : '0'];
    return asNumber(await this.#context.redis.run(PUT_TEXT, this.#keys, args)) === 1;
  }

  async delete(name: string): Promise<boolean> {
    const args = [checkName(name, this.#what), randomUUID()];
    return asNumber(await this.#context.redis.run(DELETE_TEXT, this.#keys, args)) === 1;
  }

  async version(): Promise<string> {
    return asTextIfAny(await this.#context.redis.send('GET', this.#keys[1])) ?? 'none';
  }

  async holds(count: number): Promise<boolean> {
    return asNumber(await this.#context.redis.send('HLEN', this.#keys[0])) >= count;
  }

  #toText(name: string, value: string): StoredText {
    const end = value.indexOf(' ');
    const where = `${this.#context.redis.address.where} ${this.#keys[0]} ${name}`;
    return { name, text: value.slice(end + 1), updatedAt: Number(value.slice(0, end)), where };
  }
}
