/**
 * Records, deps, texts and transcripts. The first three have one Redis hash each; transcripts have their texts in chunks, and for
 * each agent key a hash by id that names them, with a sorted set for the order.
 */

import { randomUUID } from 'node:crypto';
import { giveWay, inSlices, sortedInSlices } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import { checkName } from '../../protocol/namespace-models.ts';
import { checkPackageName, parseRequirement } from '../../protocol/requirement.ts';
import type {
  DepsStore,
  ListRecords,
  NewTranscript,
  RecordStore,
  StoredText,
  StoredTranscript,
  TextStore,
  TranscriptStore,
} from '../contract.ts';
import type { SessionRecord } from '../session-record.ts';
import { readTranscript, writeTranscript } from '../transcript-text.ts';
import { checkText, type FoundRecord, parseRecord, RecordLists, readRecord, recordText } from '../validation.ts';
import {
  type ChunkedBlob,
  expiredError,
  PUBLISH_FUNCTIONS,
  REPLACED_S,
  RedisChunkWriter,
  readRange,
} from './chunks.ts';
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

/**
 * A value is `revision content chunks bytes length`. Earlier versions wrote no length.
 * ARGV: id, revision, content, chunks, bytes, length, the prefix of chunk keys, how long the old chunks stay, `1` if
 * the old one must be shorter, and the length of the old one if its value has none.
 */
const PUT = script(`${PUBLISH_FUNCTIONS}
local old = redis.call('HGET', KEYS[1], ARGV[1])
local revision, content, chunks
if old then
  revision, content, chunks = old:match('^(%S+) (%S+) (%d+) ')
  if revision and tonumber(revision) >= tonumber(ARGV[2]) then return 0 end
  local length = old:match('^%S+ %S+ %d+ %d+ (%d+)') or ARGV[10]
  if ARGV[9] == '1' and tonumber(length) >= tonumber(ARGV[6]) then return 0 end
end
if not keep(ARGV[7] .. ARGV[3] .. '|', tonumber(ARGV[4])) then return -1 end
if content then drop(ARGV[7] .. content .. '|', tonumber(chunks), tonumber(ARGV[8])) end
redis.call('HSET', KEYS[1], ARGV[1], table.concat({ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]}, ' '))
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  redis.call('ZADD', KEYS[2], redis.call('INCR', KEYS[3]), ARGV[1])
end
return 1
`);

const DELETE = script(`${PUBLISH_FUNCTIONS}
local old = redis.call('HGET', KEYS[1], ARGV[1])
if not old then return 0 end
local content, chunks = old:match('^%S+ (%S+) (%d+) ')
if content then drop(ARGV[2] .. content .. '|', tonumber(chunks), tonumber(ARGV[3])) end
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('HDEL', KEYS[1], ARGV[1])
`);

export class RedisTranscripts implements TranscriptStore {
  readonly #context: RedisContext;

  constructor(context: RedisContext) {
    this.#context = context;
  }

  async put(agentKey: string, id: string, { revision, text, ifLonger = false }: NewTranscript): Promise<boolean> {
    const { redis, keys } = this.#context;
    const known = await this.get(agentKey, id);
    // Avoids sending a text that will be refused.
    if (known && known.revision >= revision) return false;
    const writer = new RedisChunkWriter(redis, keys);
    const length = await writeTranscript(text, (bytes) => writer.write(bytes));
    await writer.end();
    const { content, bytes } = writer;
    const value = [revision, content.id, content.chunks, bytes, length].map(String);
    const old = [ifLonger ? '1' : '0', String(known?.length ?? 0)];
    const args = [quoted(id), ...value, keys.of('chunk', ''), String(REPLACED_S), ...old];
    const answer = asNumber(await redis.run(PUT, this.#keysOf(agentKey), args));
    if (answer === -1) throw expiredError(`transcript ${JSON.stringify(id)}`);
    if (answer === 0) await writer.discard();
    return answer === 1;
  }

  async get(agentKey: string, id: string): Promise<StoredTranscript | undefined> {
    const found = await this.#find(agentKey, id);
    if (!found) return undefined;
    const text = () => readTranscript(this.#chunksOf(id, found), () => unreadable(id));
    return { revision: found.revision, length: found.length ?? (await lengthOf(text())), text: text() };
  }

  async list(agentKey: string): Promise<string[]> {
    const ids: string[] = [];
    for await (const id of readOrder(this.#context.redis, this.#keysOf(agentKey)[1])) ids.push(unquoted(id));
    return ids;
  }

  async bytes(agentKey: string): Promise<number> {
    let bytes = 0;
    for await (const [, value] of inSlices(await readHash(this.#context.redis, this.#keysOf(agentKey)[0]))) {
      bytes += Number(value.toString().split(' ')[3]);
    }
    return bytes;
  }

  delete(agentKey: string, id: string): Promise<boolean> {
    return this.#delete(agentKey, id, REPLACED_S);
  }

  /** Takes effect at once, also for readers. */
  async deleteAll(agentKey: string): Promise<void> {
    for (const id of await this.list(agentKey)) await this.#delete(agentKey, id, 0);
    await this.#context.redis.send('UNLINK', this.#keysOf(agentKey)[2]);
  }

  async #delete(agentKey: string, id: string, afterS: number): Promise<boolean> {
    const { redis, keys } = this.#context;
    const args = [quoted(id), keys.of('chunk', ''), String(afterS)];
    return asNumber(await redis.run(DELETE, this.#keysOf(agentKey), args)) === 1;
  }

  async *#chunksOf(id: string, { content, bytes }: FoundTranscript): AsyncGenerator<Uint8Array> {
    const { redis, keys } = this.#context;
    for (let at = 0; at < bytes; at += READ_BYTES) {
      const chunk = await readRange(redis, keys, content, at, Math.min(READ_BYTES, bytes - at));
      if (!chunk) throw unreadable(id);
      yield chunk;
    }
  }

  async #find(agentKey: string, id: string): Promise<FoundTranscript | undefined> {
    const value = asTextIfAny(await this.#context.redis.send('HGET', this.#keysOf(agentKey)[0], quoted(id)));
    if (value === undefined) return undefined;
    const [revision, content = '', chunks, bytes, length] = value.split(' ');
    return {
      revision: Number(revision),
      content: { id: content, chunks: Number(chunks) },
      bytes: Number(bytes),
      length: length === undefined ? undefined : Number(length),
    };
  }

  #keysOf(agentKey: string): readonly [texts: string, order: string, count: string] {
    const { keys } = this.#context;
    const agent = quoted(agentKey);
    return [keys.of('transcripts', agent), keys.of('transcripts-order', agent), keys.of('transcripts-count', agent)];
  }
}

const READ_BYTES = 256 * 1024;

interface FoundTranscript {
  readonly revision: number;
  readonly content: ChunkedBlob;
  readonly bytes: number;
  /** Undefined if an earlier version has written it. */
  readonly length: number | undefined;
}

async function lengthOf(text: AsyncIterable<string>): Promise<number> {
  let length = 0;
  for await (const piece of text) length += piece.length;
  return length;
}

const unreadable = (id: string): CellaError =>
  new CellaError('STORAGE_FAILED', `Cannot read transcript ${JSON.stringify(id)}: a part of it is gone or damaged.`);
