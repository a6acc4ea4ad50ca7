/** Checkpoints: their data in chunks, and for each agent key a hash of manifests by id, which are written last. */

import { giveWay, sortedInSlices } from '../../lib/event-loop.ts';
import { parseOwnJson } from '../../lib/own-json.ts';
import { CellaError } from '../../protocol/errors.ts';
import { CHECKPOINT_FORMAT, type Manifest } from '../../protocol/kernel-state.ts';
import type { CheckpointStore, CheckpointSummary, CheckpointWriter, DamagedCheckpoint } from '../contract.ts';
import { CHUNK_BYTES, readSegments } from '../segment-reader.ts';
import { type StagedTarget, StagedWriter } from '../staged-writer.ts';
import { checkManifest, parseManifest, summaryOf } from '../validation.ts';
import {
  type ChunkedBlob,
  chunkStem,
  expiredError,
  PUBLISH_FUNCTIONS,
  RedisChunkWriter,
  readRange,
  readSegment,
  removeChunks,
} from './chunks.ts';
import {
  asNumber,
  asText,
  asTextIfAny,
  quoted,
  type RedisContext,
  readFields,
  scanHash,
  script,
  unquoted,
} from './redis-context.ts';

/** A value is `sequence content chunks manifest`. ARGV: id, content, chunks, manifest, and the prefix of its chunk keys. */
const FINISH = script(`${PUBLISH_FUNCTIONS}
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 'taken' end
if not keep(ARGV[5], tonumber(ARGV[3])) then return 'expired' end
local sequence = redis.call('INCR', KEYS[2])
redis.call('HSET', KEYS[1], ARGV[1], sequence .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
return 'ok'
`);

/** The chunks expire if the process ends before it has removed them. */
const DELETE = script(`${PUBLISH_FUNCTIONS}
return delete(KEYS[1], ARGV[1], ARGV[2], 60)
`);

type StoredManifest =
  | { readonly kind: 'whole'; readonly manifest: Manifest }
  | { readonly kind: 'damaged'; readonly reason: string };
/** Without the large fields, because all checkpoints of a key are listed at once. */
type ListedManifest =
  | { readonly kind: 'whole'; readonly summary: CheckpointSummary }
  | { readonly kind: 'damaged'; readonly reason: string };

export class RedisCheckpoints implements CheckpointStore {
  readonly #context: RedisContext;
  readonly #writers = new Set<CheckpointWriter>();
  #closed = false;

  constructor(context: RedisContext) {
    this.#context = context;
  }

  async begin(agentKey: string): Promise<CheckpointWriter> {
    const { redis } = this.#context;
    if (this.#closed)
      throw new CellaError('STORAGE_FAILED', `Cannot use ${redis.address.where}: the storage is closed.`);
    await redis.send('PING');
    const publish = (manifest: Manifest, content: ChunkedBlob) => this.#publish(agentKey, manifest, content);
    const writer: CheckpointWriter = new StagedWriter(checkpointChunks(this.#context, publish), {
      what: 'checkpoint',
      onEnd: () => this.#writers.delete(writer),
    });
    this.#writers.add(writer);
    return writer;
  }

  async list(agentKey: string): Promise<CheckpointSummary[]> {
    const all = await this.#all(agentKey);
    return all.flatMap(({ stored }) => (stored.kind === 'whole' ? [stored.summary] : []));
  }

  async get(agentKey: string, id: string): Promise<Manifest | undefined> {
    const found = await this.#find(agentKey, id);
    const stored = found && (await readManifest(id, found.text));
    return stored?.kind === 'whole' ? stored.manifest : undefined;
  }

  async bytes(agentKey: string): Promise<number> {
    const sizes = new Map<string, number>();
    for await (const [field, value] of scanHash(this.#context.redis, this.#keysOf(agentKey)[0])) {
      const stored = await readManifest(unquoted(field), splitValue(value).text);
      const { bytes, table } = stored.kind === 'whole' ? stored.manifest : { bytes: 0 };
      sizes.set(field, value.length + bytes + (table?.bytes ?? 0));
    }
    return [...sizes.values()].reduce((total, one) => total + one, 0);
  }

  async read(agentKey: string, manifest: Manifest, segmentIndex: number): Promise<Uint8Array | undefined> {
    const segment = manifest.segments[segmentIndex];
    const found = segment && (await this.#find(agentKey, manifest.id));
    if (!segment || !found) return undefined;
    const offset = manifest.segments.slice(0, segmentIndex).reduce((sum, { bytes }) => sum + bytes, 0);
    return readSegment(this.#context, found.content, segment, offset);
  }

  async *segments(agentKey: string, manifest: Manifest): AsyncGenerator<Uint8Array | undefined> {
    const found = await this.#find(agentKey, manifest.id);
    if (!found) return yield* manifest.segments.map(() => undefined);
    const { redis, keys } = this.#context;
    yield* readSegments(manifest.segments, {
      readSegment: (segment, offset) => readSegment(this.#context, found.content, segment, offset),
      readChunk: (index, bytes) => readRange(redis, keys, found.content, index * CHUNK_BYTES, bytes),
    });
  }

  async damaged(agentKey: string): Promise<DamagedCheckpoint[]> {
    const all = await this.#all(agentKey);
    return all.flatMap(({ id, stored }) => (stored.kind === 'damaged' ? [{ id, reason: stored.reason }] : []));
  }

  async delete(agentKey: string, id: string): Promise<boolean> {
    const { redis, keys } = this.#context;
    const args = [quoted(id), keys.of('chunk', '')];
    const value = asTextIfAny(await redis.run(DELETE, [this.#keysOf(agentKey)[0]], args));
    if (value === undefined) return false;
    await removeChunks(redis, keys, splitValue(Buffer.from(value)).content);
    return true;
  }

  async deleteAll(agentKey: string): Promise<void> {
    const { redis } = this.#context;
    for (const id of await readFields(redis, this.#keysOf(agentKey)[0])) await this.delete(agentKey, unquoted(id));
    await redis.send('UNLINK', this.#keysOf(agentKey)[1]);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#writers].map((writer) => writer.abort()));
  }

  async #publish(agentKey: string, manifest: Manifest, { id, chunks }: ChunkedBlob): Promise<void> {
    const { redis, keys } = this.#context;
    const args = [quoted(manifest.id), id, String(chunks), JSON.stringify(manifest), chunkStem(keys, id)];
    const answer = asText(await redis.run(FINISH, this.#keysOf(agentKey), args));
    if (answer === 'taken') {
      throw new CellaError('STORAGE_FAILED', `Cannot store checkpoint ${manifest.id}: one of that id exists already.`);
    }
    if (answer === 'expired') throw expiredError(`checkpoint ${manifest.id}`);
  }

  async #find(agentKey: string, id: string): Promise<ReturnType<typeof splitValue> | undefined> {
    const value = asTextIfAny(await this.#context.redis.send('HGET', this.#keysOf(agentKey)[0], quoted(id)));
    return value === undefined ? undefined : splitValue(Buffer.from(value));
  }

  async #all(agentKey: string): Promise<{ id: string; stored: ListedManifest }[]> {
    const all = new Map<string, { id: string; sequence: number; stored: ListedManifest }>();
    for await (const [field, value] of scanHash(this.#context.redis, this.#keysOf(agentKey)[0])) {
      await giveWay();
      const id = unquoted(field);
      const { sequence, text } = splitValue(value);
      const stored = await readManifest(id, text);
      all.set(id, {
        id,
        sequence,
        stored: stored.kind === 'whole' ? { kind: 'whole', summary: summaryOf(stored.manifest) } : stored,
      });
    }
    return await sortedInSlices([...all.values()], (one, other) => one.sequence - other.sequence);
  }

  #keysOf(agentKey: string): readonly [manifests: string, count: string] {
    const { keys } = this.#context;
    return [keys.of('checkpoints', quoted(agentKey)), keys.of('checkpoints-count', quoted(agentKey))];
  }
}

/** Longer than everything that precedes the manifest. */
const LONGEST_HEAD = 1000;

function splitValue(value: Buffer): { sequence: number; content: ChunkedBlob; text: Buffer } {
  const [head = '', sequence = '0', id = '', chunks = '0'] =
    /^(\d+) (\S+) (\d+) /.exec(value.toString('latin1', 0, LONGEST_HEAD)) ?? [];
  const text = head === '' ? Buffer.alloc(0) : value.subarray(head.length);
  return { sequence: asNumber(sequence), content: { id, chunks: asNumber(chunks) }, text };
}

async function readManifest(id: string, text: Buffer): Promise<StoredManifest> {
  let content: unknown;
  try {
    content = await parseOwnJson(text);
  } catch {
    return { kind: 'damaged', reason: 'the manifest is not JSON' };
  }
  const parsed = await parseManifest(content);
  if ('reason' in parsed) {
    return { kind: 'damaged', reason: `the manifest is none of format ${CHECKPOINT_FORMAT}: ${parsed.reason}` };
  }
  const { manifest } = parsed;
  if (manifest.id !== id) return { kind: 'damaged', reason: `the manifest is that of ${manifest.id}` };
  return { kind: 'whole', manifest };
}

/** Writes one checkpoint to chunks that are not visible until its manifest names them. What cannot be removed expires. */
function checkpointChunks(
  { redis, keys }: RedisContext,
  publish: (manifest: Manifest, content: ChunkedBlob) => Promise<void>,
): StagedTarget<Manifest, void> {
  const chunks = new RedisChunkWriter(redis, keys);
  return {
    write: (bytes) => chunks.write(bytes),
    publish: async (manifest) => {
      const checked = checkManifest(manifest, chunks.bytes);
      await chunks.end();
      await publish(checked, chunks.content);
    },
    discard: () => chunks.discard().catch(() => {}),
  };
}
