import { inSlices } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { NewTranscript, StoredTranscript, TranscriptStore } from '../contract.ts';
import { readTranscript, writeTranscript } from '../transcript-text.ts';
import {
  type ChunkedBlob,
  expiredError,
  PUBLISH_FUNCTIONS,
  REPLACED_S,
  RedisChunkWriter,
  readRange,
} from './chunks.ts';
import {
  asNumber,
  asTextIfAny,
  quoted,
  type RedisContext,
  readHash,
  readOrder,
  script,
  unquoted,
} from './redis-context.ts';

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
if not delete(KEYS[1], ARGV[1], ARGV[2], ARGV[3]) then return 0 end
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
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
