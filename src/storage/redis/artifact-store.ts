/** Artifacts: their bytes in chunks, and a hash of their metadata by name, which is written last. */

import { createHash } from 'node:crypto';
import { giveWay, inSlices, sortedInSlices } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type ArtifactFacts, ArtifactInfo, checkName } from '../../protocol/namespace-models.ts';
import type { ArtifactReader, ArtifactStore, ArtifactWriter, Page } from '../contract.ts';
import { type StagedTarget, StagedWriter } from '../staged-writer.ts';
import { checkStoredFacts, jsonLength } from '../validation.ts';
import {
  type ChunkedBlob,
  expiredError,
  PUBLISH_FUNCTIONS,
  REPLACED_S,
  RedisChunkWriter,
  readRange,
} from './chunks.ts';
import { asList, asNumber, asText, asTextIfAny, type RedisContext, readFields, script } from './redis-context.ts';

/**
 * A value is `createdAt content chunks info`. Replacing an artifact keeps `createdAt`.
 * ARGV: name, time, content, chunks, info, the prefix of chunk keys, and how long the old chunks stay.
 */
const FINISH = script(`${PUBLISH_FUNCTIONS}
if not keep(ARGV[6] .. ARGV[3] .. '|', tonumber(ARGV[4])) then return 'expired' end
local created = ARGV[2]
local old = redis.call('HGET', KEYS[1], ARGV[1])
if old then
  local at, content, chunks = old:match('^(%S+) (%S+) (%d+) ')
  if at then
    created = at
    drop(ARGV[6] .. content .. '|', tonumber(chunks), tonumber(ARGV[7]))
  end
end
redis.call('HSET', KEYS[1], ARGV[1], created .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. ARGV[5])
return created
`);

const DELETE = script(`${PUBLISH_FUNCTIONS}
if delete(KEYS[1], ARGV[1], ARGV[2], ARGV[3]) then return 1 end
return 0
`);

/** How many to request at a time. */
const AT_ONCE = 50;

export class RedisArtifacts implements ArtifactStore {
  readonly #context: RedisContext;
  readonly #key: string;
  readonly #writers = new Set<StagedWriter<ArtifactFacts, ArtifactInfo>>();
  /** Those that this process replaced or deleted, the oldest first, until their chunks expire. */
  #dropped: { readonly until: number; readonly bytes: number }[] = [];
  #closed = false;

  constructor(context: RedisContext) {
    this.#context = context;
    this.#key = context.keys.of('artifacts');
  }

  async begin(name: string): Promise<ArtifactWriter> {
    const checked = checkName(name, 'artifact');
    const { redis } = this.#context;
    if (this.#closed)
      throw new CellaError('STORAGE_FAILED', `Cannot use ${redis.address.where}: the storage is closed.`);
    await redis.send('PING');
    const target = artifactChunks(this.#context, checked, (written, facts) => this.#publish(checked, written, facts));
    const writer = new StagedWriter(target, { what: 'artifact', onEnd: () => this.#writers.delete(writer) });
    this.#writers.add(writer);
    return writer;
  }

  async get(name: string): Promise<ArtifactInfo | undefined> {
    return (await this.#find(checkName(name, 'artifact')))?.info;
  }

  async list({ after = '', limit = Infinity, enough = Infinity }: Page = {}): Promise<ArtifactInfo[]> {
    const { redis } = this.#context;
    const names = [...(await readFields(redis, this.#key))].filter((name) => name > after);
    const sorted = await sortedInSlices(names, (one, other) => (one < other ? -1 : 1));
    const infos: ArtifactInfo[] = [];
    let length = 0;
    for (let at = 0; at < sorted.length && infos.length < limit && length < enough; ) {
      await giveWay();
      const next = Math.min(at + AT_ONCE, at + limit - infos.length);
      const values = asList(await redis.send('HMGET', this.#key, ...sorted.slice(at, next))).map(asTextIfAny);
      for await (const value of inSlices(values)) {
        const info = value === undefined ? undefined : parse(value)?.info;
        if (!info) continue;
        infos.push(info);
        length += enough === Infinity ? 0 : jsonLength(info);
      }
      at = next;
    }
    return infos;
  }

  async holds(count: number): Promise<boolean> {
    return asNumber(await this.#context.redis.send('HLEN', this.#key)) >= count;
  }

  async open(name: string): Promise<ArtifactReader | undefined> {
    const found = await this.#find(checkName(name, 'artifact'));
    return found && new RedisArtifactReader(this.#context, found.info, found.content);
  }

  async delete(name: string): Promise<boolean> {
    const { redis, keys } = this.#context;
    const checked = checkName(name, 'artifact');
    const bytes = await this.#sizeOf(checked);
    const args = [checked, keys.of('chunk', ''), String(REPLACED_S)];
    const deleted = asNumber(await redis.run(DELETE, [this.#key], args)) === 1;
    if (deleted) this.#drop(bytes);
    return deleted;
  }

  async unlistedBytes(): Promise<number> {
    this.#forgetExpired();
    const unfinished = [...this.#writers].reduce((sum, { bytes }) => sum + bytes, 0);
    return this.#dropped.reduce((sum, { bytes }) => sum + bytes, unfinished);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#writers].map((writer) => writer.abort()));
  }

  async #publish(name: string, { content, size, sha256 }: WrittenBlob, facts: ArtifactFacts): Promise<ArtifactInfo> {
    const { redis, keys, clock } = this.#context;
    const at = Math.trunc(clock());
    const info = { ...facts, name, size, sha256, createdAt: at, updatedAt: at };
    const value = [String(at), content.id, String(content.chunks), JSON.stringify(info)];
    const replaced = await this.#sizeOf(name);
    const created = asText(
      await redis.run(FINISH, [this.#key], [name, ...value, keys.of('chunk', ''), String(REPLACED_S)]),
    );
    if (created === 'expired') throw expiredError(`artifact ${JSON.stringify(name)}`);
    this.#drop(replaced);
    return { ...info, createdAt: asNumber(created) };
  }

  /** 0 if there is none, or if its entry is damaged. */
  async #sizeOf(name: string): Promise<number> {
    const value = asTextIfAny(await this.#context.redis.send('HGET', this.#key, name));
    return (value !== undefined && parse(value)?.info.size) || 0;
  }

  #drop(bytes: number): void {
    this.#forgetExpired();
    const until = performance.now() + REPLACED_S * 1000;
    const last = this.#dropped.at(-1);
    // One entry per second: code may replace artifacts without end.
    if (last && until - last.until < 1000)
      this.#dropped[this.#dropped.length - 1] = { until, bytes: last.bytes + bytes };
    else if (bytes > 0) this.#dropped.push({ until, bytes });
  }

  #forgetExpired(): void {
    const now = performance.now();
    this.#dropped = this.#dropped.filter(({ until }) => until > now);
  }

  async #find(name: string): Promise<FoundArtifact | undefined> {
    const value = asTextIfAny(await this.#context.redis.send('HGET', this.#key, name));
    if (value === undefined) return undefined;
    const found = parse(value);
    if (found) return found;
    const where = `${this.#context.redis.address.where} ${this.#key}`;
    throw new CellaError('STORAGE_FAILED', `Cannot read artifact ${JSON.stringify(name)} in ${where}: it is damaged.`);
  }
}

interface FoundArtifact {
  readonly info: ArtifactInfo;
  readonly content: ChunkedBlob;
}

function parse(value: string): FoundArtifact | undefined {
  const [, created = '', id = '', chunks = '', text = ''] = /^(\d+) (\S+) (\d+) (.*)$/s.exec(value) ?? [];
  try {
    const info = ArtifactInfo.safeParse({ ...JSON.parse(text), createdAt: Number(created) });
    return info.success ? { info: info.data, content: { id, chunks: Number(chunks) } } : undefined;
  } catch {
    return undefined; // not JSON: it counts as damaged
  }
}

/** Reads one artifact. Its chunks stay for a while after it was replaced or deleted. */
class RedisArtifactReader implements ArtifactReader {
  readonly info: ArtifactInfo;
  readonly #context: RedisContext;
  readonly #content: ChunkedBlob;

  constructor(context: RedisContext, info: ArtifactInfo, content: ChunkedBlob) {
    this.info = info;
    this.#context = context;
    this.#content = content;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    const { redis, keys } = this.#context;
    const bytes = Math.max(0, Math.min(length, this.info.size - offset));
    const found = await readRange(redis, keys, this.#content, offset, bytes);
    if (found) return found;
    const message = `Cannot read artifact ${JSON.stringify(this.info.name)}: it was replaced or deleted meanwhile. Open it again.`;
    throw new CellaError('STORAGE_FAILED', message);
  }

  /** Nothing to close: unused chunks expire. */
  async [Symbol.asyncDispose](): Promise<void> {}
}

interface WrittenBlob {
  readonly content: ChunkedBlob;
  readonly size: number;
  readonly sha256: string;
}

/** Writes one artifact to chunks that are not visible until its metadata names them. What cannot be removed expires. */
function artifactChunks(
  { redis, keys }: RedisContext,
  name: string,
  publish: (written: WrittenBlob, facts: ArtifactFacts) => Promise<ArtifactInfo>,
): StagedTarget<ArtifactFacts, ArtifactInfo> {
  const chunks = new RedisChunkWriter(redis, keys);
  const hash = createHash('sha256');
  return {
    write: async (bytes) => {
      hash.update(bytes);
      await chunks.write(bytes);
    },
    publish: async (facts) => {
      const checked = checkStoredFacts(name, facts);
      await chunks.end();
      const { content, bytes } = chunks;
      return publish({ content, size: bytes, sha256: hash.digest('hex') }, checked);
    },
    discard: () => chunks.discard().catch(() => {}),
  };
}
