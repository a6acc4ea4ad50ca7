/**
 * Bytes of any length, in values of 8 MB under their own id. Chunks expire automatically until somebody publishes
 * them (see PUBLISH), so that the leftovers of a killed writer do not stay.
 */

import { randomUUID } from 'node:crypto';
import { CellaError } from '../../protocol/errors.ts';
import type { Segment } from '../../protocol/kernel-state.ts';
import { CHUNK_BYTES, intact } from '../segment-reader.ts';
import { asBytes, asNumber, type RedisCommands, type RedisContext, type RedisKeys } from './redis-context.ts';

/** How long unpublished chunks last. */
const UNFINISHED_S = 3600;
/** How long replaced or deleted chunks stay readable for those who are reading them. */
export const REPLACED_S = 600;

/** The location of the bytes, as stored in a manifest. */
export interface ChunkedBlob {
  readonly id: string;
  readonly chunks: number;
}

const chunkKey = (keys: RedisKeys, { id }: { readonly id: string }, index: number): string =>
  keys.of('chunk', id, String(index));

/**
 * Lua functions for scripts that publish. `keep(stem, count)` makes chunks permanent, and returns false if one is missing;
 * `drop(stem, count, seconds)` lets them expire. `delete(key, id, prefix, seconds)` deletes a value from a hash, lets its
 * chunks expire, and returns it, or false if there is none.
 */
export const PUBLISH_FUNCTIONS = `
local function keep(stem, count)
  for i = 0, count - 1 do
    if redis.call('EXISTS', stem .. i) == 0 then return false end
  end
  for i = 0, count - 1 do redis.call('PERSIST', stem .. i) end
  return true
end
local function drop(stem, count, seconds)
  for i = 0, count - 1 do redis.call('EXPIRE', stem .. i, seconds) end
end
local function delete(key, id, prefix, seconds)
  local value = redis.call('HGET', key, id)
  if not value then return false end
  redis.call('HDEL', key, id)
  local content, chunks = value:match('^%S+ (%S+) (%d+) ')
  if content then drop(prefix .. content .. '|', tonumber(chunks), tonumber(seconds)) end
  return value
end
`;

/** The key prefix of a content's chunks; the number follows. */
export const chunkStem = (keys: RedisKeys, id: string): string => keys.of('chunk', id, '');

export class RedisChunkWriter {
  readonly #redis: RedisCommands;
  readonly #keys: RedisKeys;
  readonly #id = randomUUID();
  #part: Buffer[] = [];
  #partBytes = 0;
  #chunks = 0;
  #bytes = 0;
  #refreshedAt = performance.now();

  constructor(redis: RedisCommands, keys: RedisKeys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get content(): ChunkedBlob {
    return { id: this.#id, chunks: this.#chunks };
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let from = 0; from < bytes.length; ) {
      const part = bytes.subarray(from, from + CHUNK_BYTES - this.#partBytes);
      // Copies, because the caller can reuse its buffer once this resolves.
      this.#part.push(Buffer.from(part));
      this.#partBytes += part.length;
      from += part.length;
      this.#bytes += part.length;
      if (this.#partBytes === CHUNK_BYTES) await this.end();
    }
  }

  /** Writes the last, incomplete chunk. */
  async end(): Promise<void> {
    if (this.#partBytes === 0) return;
    const bytes = Buffer.concat(this.#part);
    this.#part = [];
    this.#partBytes = 0;
    await this.#redis.send('SET', chunkKey(this.#keys, this.content, this.#chunks), bytes, 'EX', String(UNFINISHED_S));
    this.#chunks += 1;
    if (performance.now() - this.#refreshedAt > (UNFINISHED_S * 1000) / 4) await this.#refresh();
  }

  async discard(): Promise<void> {
    this.#part = [];
    await removeChunks(this.#redis, this.#keys, this.content);
  }

  /** The first chunks of a slow writer must not expire before its last one. */
  async #refresh(): Promise<void> {
    this.#refreshedAt = performance.now();
    for (let index = 0; index < this.#chunks; index += 1) {
      await this.#redis.send('EXPIRE', chunkKey(this.#keys, this.content, index), String(UNFINISHED_S));
    }
  }
}

export async function removeChunks(redis: RedisCommands, keys: RedisKeys, content: ChunkedBlob): Promise<void> {
  for (let index = 0; index < content.chunks; index += 1) await redis.send('UNLINK', chunkKey(keys, content, index));
}

/** At most `length` bytes from `offset`; undefined if some of them are missing. */
export async function readRange(
  redis: RedisCommands,
  keys: RedisKeys,
  content: ChunkedBlob,
  offset: number,
  length: number,
): Promise<Buffer | undefined> {
  const parts: Buffer[] = [];
  for (let at = offset; at < offset + length; ) {
    const index = Math.floor(at / CHUNK_BYTES);
    const start = at % CHUNK_BYTES;
    const wanted = Math.min(CHUNK_BYTES - start, offset + length - at);
    const range = [String(start), String(start + wanted - 1)];
    const part = asBytes(await redis.send('GETRANGE', chunkKey(keys, content, index), ...range));
    if (part.length !== wanted) return undefined;
    parts.push(part);
    at += wanted;
  }
  return parts.length === 1 ? parts[0] : Buffer.concat(parts);
}

/** Whether this many bytes exist. Checked before allocating. */
async function holdsBytes(redis: RedisCommands, keys: RedisKeys, content: ChunkedBlob, end: number): Promise<boolean> {
  if (end > content.chunks * CHUNK_BYTES) return false;
  if (end === 0) return true;
  const last = Math.floor((end - 1) / CHUNK_BYTES);
  return asNumber(await redis.send('STRLEN', chunkKey(keys, content, last))) >= end - last * CHUNK_BYTES;
}

export const expiredError = (what: string): CellaError =>
  new CellaError('STORAGE_FAILED', `Cannot finish ${what}: it was left for so long that a part of it has expired.`);

/** The bytes of a segment that begins at `offset`; undefined if they differ from what was written. */
export async function readSegment(
  { redis, keys }: RedisContext,
  content: ChunkedBlob,
  segment: Segment,
  offset: number,
): Promise<Uint8Array | undefined> {
  // A manifest can claim more bytes than exist, or than fit in memory.
  if (!(await holdsBytes(redis, keys, content, offset + segment.bytes))) return undefined;
  return intact(segment, await readRange(redis, keys, content, offset, segment.bytes));
}
