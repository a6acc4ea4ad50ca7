/** Transcripts: their texts in chunks, and for each agent a hash by id that names them, with a sorted set for the order. */

import { CellaError } from '../../protocol/errors.ts';
import type { TranscriptStore } from '../contract.ts';
import {
  type ChunkedBlob,
  expiredError,
  PUBLISH_FUNCTIONS,
  REPLACED_S,
  RedisChunkWriter,
  readRange,
} from './chunks.ts';
import { asList, asNumber, asText, asTextIfAny, quoted, type RedisContext, script, unquoted } from './redis-context.ts';

/**
 * A value is `revision content chunks bytes`.
 * ARGV: id, revision, content, chunks, bytes, what chunks begin with, and for how long those of the old one stay.
 */
const PUT = script(`${PUBLISH_FUNCTIONS}
local old = redis.call('HGET', KEYS[1], ARGV[1])
local revision, content, chunks
if old then
  revision, content, chunks = old:match('^(%S+) (%S+) (%d+) ')
  if revision and tonumber(revision) >= tonumber(ARGV[2]) then return 0 end
end
if not keep(ARGV[6] .. ARGV[3] .. '|', tonumber(ARGV[4])) then return -1 end
if content then drop(ARGV[6] .. content .. '|', tonumber(chunks), tonumber(ARGV[7])) end
redis.call('HSET', KEYS[1], ARGV[1], table.concat({ARGV[2], ARGV[3], ARGV[4], ARGV[5]}, ' '))
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

  async put(agentKey: string, id: string, { revision, text }: { revision: number; text: string }): Promise<boolean> {
    const { redis, keys } = this.#context;
    const known = (await this.#find(agentKey, id))?.revision;
    // What will be refused need not be sent.
    if (known !== undefined && known >= revision) return false;
    const writer = new RedisChunkWriter(redis, keys);
    await writer.write(Buffer.from(JSON.stringify(text)));
    await writer.end();
    const { content, bytes } = writer;
    const value = [String(revision), content.id, String(content.chunks), String(bytes)];
    const args = [quoted(id), ...value, keys.of('chunk', ''), String(REPLACED_S)];
    const answer = asNumber(await redis.run(PUT, this.#keysOf(agentKey), args));
    if (answer === -1) throw expiredError(`transcript ${JSON.stringify(id)}`);
    if (answer === 0) await writer.discard();
    return answer === 1;
  }

  async get(agentKey: string, id: string): Promise<{ revision: number; text: string } | undefined> {
    const { redis, keys } = this.#context;
    const found = await this.#find(agentKey, id);
    if (!found) return undefined;
    const bytes = await readRange(redis, keys, found.content, 0, found.bytes);
    if (bytes) return { revision: found.revision, text: String(JSON.parse(bytes.toString())) };
    throw new CellaError('STORAGE_FAILED', `Cannot read transcript ${JSON.stringify(id)}: a part of it is gone.`);
  }

  async list(agentKey: string): Promise<string[]> {
    const ids = asList(await this.#context.redis.send('ZRANGE', this.#keysOf(agentKey)[1], '0', '-1'));
    return ids.map((id) => unquoted(asText(id)));
  }

  async bytes(agentKey: string): Promise<number> {
    const values = asList(await this.#context.redis.send('HVALS', this.#keysOf(agentKey)[0]));
    return values.reduce<number>((sum, value) => sum + Number(asText(value).split(' ')[3]), 0);
  }

  delete(agentKey: string, id: string): Promise<boolean> {
    return this.#delete(agentKey, id, REPLACED_S);
  }

  /** At once, also for readers. */
  async deleteAll(agentKey: string): Promise<void> {
    for (const id of await this.list(agentKey)) await this.#delete(agentKey, id, 0);
    await this.#context.redis.send('UNLINK', this.#keysOf(agentKey)[2]);
  }

  async #delete(agentKey: string, id: string, afterS: number): Promise<boolean> {
    const { redis, keys } = this.#context;
    const args = [quoted(id), keys.of('chunk', ''), String(afterS)];
    return asNumber(await redis.run(DELETE, this.#keysOf(agentKey), args)) === 1;
  }

  async #find(
    agentKey: string,
    id: string,
  ): Promise<{ revision: number; content: ChunkedBlob; bytes: number } | undefined> {
    const value = asTextIfAny(await this.#context.redis.send('HGET', this.#keysOf(agentKey)[0], quoted(id)));
    if (value === undefined) return undefined;
    const [revision, content = '', chunks, bytes] = value.split(' ');
    return { revision: Number(revision), content: { id: content, chunks: Number(chunks) }, bytes: Number(bytes) };
  }

  #keysOf(agentKey: string): readonly [texts: string, order: string, count: string] {
    const { keys } = this.#context;
    const agent = quoted(agentKey);
    return [keys.of('transcripts', agent), keys.of('transcripts-order', agent), keys.of('transcripts-count', agent)];
  }
}
