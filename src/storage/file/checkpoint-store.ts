/** Checkpoints as plain files, `<folder>/<agent>/<id>/`, in chunks of 8 MB: readable even if the database is lost. */

import { type FileHandle, open, readdir, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { BoundedMap } from '../../lib/bounded-map.ts';
import { folderSize } from '../../lib/folder-size.ts';
import { removeOwnTree } from '../../lib/large-folders.ts';
import { parseOwnJson } from '../../lib/own-json.ts';
import { makePrivateFolder, syncFolder, writePrivateFile } from '../../lib/private-file.ts';
import { KeyedSerialQueue } from '../../lib/queues.ts';
import { systemCode } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import { CHECKPOINT_FORMAT, type Manifest, type Segment } from '../../protocol/kernel-state.ts';
import type { CheckpointStore, CheckpointSummary, CheckpointWriter, DamagedCheckpoint } from '../contract.ts';
import { CHUNK_BYTES, digestOf, intact, readSegments } from '../segment-reader.ts';
import { type StagedTarget, StagedWriter } from '../staged-writer.ts';
import { checkManifest, folderName, parseManifest, summaryOf } from '../validation.ts';
import { explain, guarded, storageFailed } from './file-errors.ts';
import { openRegularFile } from './regular-files.ts';
import type { StagingFolder } from './staging-folder.ts';

/** Each takes a few hundred bytes. */
const MOST_KNOWN = 20_000;
/** If a file is older than this, a change to it always changes its times. */
const SETTLED_MS = 2000;

export class FileCheckpoints implements CheckpointStore {
  readonly #folder: string;
  readonly #staging: StagingFolder;
  readonly #writers = new Set<CheckpointWriter>();
  /** Serialises writes per key, so that each checkpoint gets its own place in the order. */
  readonly #publishing = new KeyedSerialQueue<string>();
  /** Cached manifests for lists, by folder path. */
  readonly #known = new BoundedMap<string, { readonly stamp: string; readonly stored: ListedFile }>(MOST_KNOWN);
  #closed = false;

  constructor(folder: string, staging: StagingFolder) {
    this.#folder = folder;
    this.#staging = staging;
  }

  async begin(agentKey: string): Promise<CheckpointWriter> {
    if (this.#closed) throw new CellaError('STORAGE_FAILED', `Cannot use ${this.#folder}: the storage is closed.`);
    const unfinished = await guarded('begin a checkpoint in', this.#folder, () => this.#staging.make());
    const publish = (manifest: Manifest) =>
      this.#publishing.run(agentKey, () => this.#publish(agentKey, unfinished, manifest));
    const writer: CheckpointWriter = new StagedWriter(checkpointFolder(unfinished, publish), {
      what: 'checkpoint',
      onEnd: () => this.#writers.delete(writer),
      toError: (cause) => storageFailed('write the checkpoint in', unfinished, cause),
    });
    this.#writers.add(writer);
    return writer;
  }

  async list(agentKey: string): Promise<CheckpointSummary[]> {
    const whole = (await this.#all(agentKey)).flatMap(({ stored }) => (stored.kind === 'whole' ? [stored] : []));
    whole.sort((one, other) => one.sequence - other.sequence || (one.summary.id < other.summary.id ? -1 : 1));
    return whole.map(({ summary }) => summary);
  }

  async bytes(agentKey: string): Promise<number> {
    return await folderSize(join(this.#folder, folderName(agentKey)));
  }

  async get(agentKey: string, id: string): Promise<Manifest | undefined> {
    const stored = await readManifest(this.#path(agentKey, id));
    return stored.kind === 'whole' && stored.manifest.id === id ? stored.manifest : undefined;
  }

  async read(agentKey: string, manifest: Manifest, segmentIndex: number): Promise<Uint8Array | undefined> {
    const segment = manifest.segments[segmentIndex];
    if (!segment) return undefined;
    const offset = manifest.segments.slice(0, segmentIndex).reduce((sum, { bytes }) => sum + bytes, 0);
    const path = this.#path(agentKey, manifest.id);
    return guarded('read', path, () => readSegment(path, segment, offset));
  }

  segments(agentKey: string, manifest: Manifest): AsyncIterable<Uint8Array | undefined> {
    const path = this.#path(agentKey, manifest.id);
    return readSegments(manifest.segments, {
      readSegment: (segment, offset) => guarded('read', path, () => readSegment(path, segment, offset)),
      readChunk: (index) => guarded('read', path, () => readWhole(chunkPath(path, index)).catch(missing)),
    });
  }

  async damaged(agentKey: string): Promise<DamagedCheckpoint[]> {
    const all = await this.#all(agentKey);
    return all.flatMap(({ name, stored }) => (stored.kind === 'damaged' ? [{ id: name, reason: stored.reason }] : []));
  }

  async delete(agentKey: string, id: string): Promise<boolean> {
    return this.#discard(this.#path(agentKey, id));
  }

  async deleteAll(agentKey: string): Promise<void> {
    await this.#discard(join(this.#folder, folderName(agentKey)));
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const writer of [...this.#writers]) await writer.abort();
  }

  async #publish(agentKey: string, unfinished: string, manifest: Manifest): Promise<void> {
    const path = this.#path(agentKey, manifest.id);
    const before = (await this.#all(agentKey)).map(({ stored }) => (stored.kind === 'whole' ? stored.sequence : 0));
    await writeManifest(unfinished, manifest, 1 + Math.max(0, ...before));
    await syncFolder(unfinished);
    await makePrivateFolder(dirname(path));
    await rename(unfinished, path).catch((cause) => {
      if (!['ENOTEMPTY', 'EEXIST'].includes(systemCode(cause) ?? '')) throw cause;
      throw new CellaError('STORAGE_FAILED', `Cannot store checkpoint ${manifest.id}: ${path} exists already.`, {
        cause,
      });
    });
    await syncFolder(dirname(path));
    await syncFolder(this.#folder);
  }

  async #all(agentKey: string): Promise<{ name: string; stored: ListedFile }[]> {
    const folder = join(this.#folder, folderName(agentKey));
    const entries = await guarded('read', folder, () =>
      readdir(folder, { withFileTypes: true }).catch((error) => {
        if (systemCode(error) === 'ENOENT') return [];
        throw error;
      }),
    );
    const names = entries.filter((entry) => entry.isDirectory() && plainName.test(entry.name)).map(({ name }) => name);
    const all: { name: string; stored: ListedFile }[] = [];
    for (const name of names) all.push({ name, stored: await this.#listed(folder, name) });
    return all;
  }

  /** Reads it if its file has changed, or may have changed within one tick of the file system's clock. */
  async #listed(folder: string, name: string): Promise<ListedFile> {
    const path = join(folder, name);
    const facts = await stat(fileIn(path), { bigint: true }).catch(() => undefined); // reading it says why
    const stamp = facts && [facts.ino, facts.size, facts.mtimeNs, facts.ctimeNs].join(' ');
    const known = this.#known.get(path);
    if (known && known.stamp === stamp) return known.stored;
    const stored = ofFolder(name, await readManifest(path));
    const isOld = facts !== undefined && Math.abs(Date.now() - Number(facts.ctimeMs)) > SETTLED_MS;
    if (stamp && isOld && stored.kind === 'whole') this.#known.set(path, { stamp, stored });
    else this.#known.delete(path);
    return stored;
  }

  async #discard(path: string): Promise<boolean> {
    return guarded('delete', path, async () => {
      const found = await this.#staging.discard(path);
      if (found) await syncFolder(dirname(path));
      return found;
    });
  }

  #path(agentKey: string, id: string): string {
    return join(this.#folder, folderName(agentKey), idName(id));
  }
}

const plainName = /^~?[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/;

/** The folder has the name of the id, if the id is a plain name. */
const idName = (id: string): string => (plainName.test(id) ? id : `~${folderName(id)}`);

/** Refuses a manifest that belongs to another checkpoint. */
function ofFolder(name: string, stored: ManifestFile): ListedFile {
  if (stored.kind !== 'whole') return stored;
  const { manifest, sequence } = stored;
  if (idName(manifest.id) === name) return { kind: 'whole', summary: summaryOf(manifest), sequence };
  return { kind: 'damaged', reason: `the manifest is that of ${stored.manifest.id}` };
}

/** Writes one checkpoint to a folder that is not visible until it gets its name. */
function checkpointFolder(
  folder: string,
  publish: (manifest: Manifest) => Promise<void>,
): StagedTarget<Manifest, void> {
  const chunks = new FileChunkWriter(folder);
  return {
    write: (bytes) => chunks.write(bytes),
    publish: async (manifest) => {
      const checked = checkManifest(manifest, chunks.bytes);
      await chunks.end();
      await publish(checked);
    },
    discard: async () => {
      await chunks.close();
      await removeOwnTree(folder).catch((cause) => {
        throw storageFailed('remove', folder, cause);
      });
    },
  };
}

/** A longer file is not a manifest and is not read into memory. */
const MAX_BYTES = 64 * 1024 * 1024;

type NoManifest = { readonly kind: 'damaged'; readonly reason: string } | { readonly kind: 'absent' };
type ManifestFile = { readonly kind: 'whole'; readonly manifest: Manifest; readonly sequence: number } | NoManifest;
/** Without the large fields, because all checkpoints of a key are listed at once. */
type ListedFile =
  | { readonly kind: 'whole'; readonly summary: CheckpointSummary; readonly sequence: number }
  | NoManifest;

/** The checksum covers the text without the checksum. */
async function writeManifest(folder: string, manifest: Manifest, sequence: number): Promise<void> {
  const text = JSON.stringify({ ...manifest, sequence });
  await writePrivateFile(fileIn(folder), `${text.slice(0, -1)}${checksumPart(await digestOf(Buffer.from(text)))}\n`);
}

const checksumPart = (sum: string): string => `,"checksum":"${sum}"}`;

/** Reports what is there without throwing. */
async function readManifest(folder: string): Promise<ManifestFile> {
  try {
    await using file = await openRegularFile(fileIn(folder));
    const { size } = file ? await file.stat() : await stat(fileIn(folder));
    if (!file) return damaged('the manifest cannot be read: it is not a regular file');
    if (size > MAX_BYTES) return damaged(`the manifest has ${size} bytes`);
    return await parse(await file.readFile());
  } catch (error) {
    if (systemCode(error) === 'ENOENT' && !(await exists(folder))) return { kind: 'absent' };
    return damaged(`the manifest cannot be read: ${explain(error).reason}`);
  }
}

async function parse(text: Buffer): Promise<ManifestFile> {
  let content: unknown;
  try {
    content = await parseOwnJson(text);
  } catch {
    return damaged('the manifest is not JSON');
  }
  if (typeof content !== 'object' || content === null) return damaged('the manifest is not an object');
  if ('format' in content && typeof content.format === 'number' && content.format > CHECKPOINT_FORMAT) {
    return damaged(
      `the manifest has format ${content.format}, and this Cella reads format ${CHECKPOINT_FORMAT}: use a newer one`,
    );
  }
  const { checksum, sequence, ...fields } = content as { checksum?: unknown; sequence?: unknown };
  const end = text.lastIndexOf(checksumPart(String(checksum)));
  const sum = end < 0 ? undefined : await digestOf(text.subarray(0, end), Buffer.from('}'));
  if (sum !== checksum) return damaged('the manifest was changed or cut: its checksum does not fit');
  const parsed = await parseManifest(fields);
  if ('reason' in parsed) return damaged(`the manifest is not one: ${parsed.reason}`);
  return { kind: 'whole', manifest: parsed.manifest, sequence: Number(sequence) };
}

const damaged = (reason: string): ManifestFile => ({ kind: 'damaged', reason });

const fileIn = (folder: string): string => join(folder, 'manifest.json');

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

const chunkPath = (folder: string, index: number): string => join(folder, `${String(index).padStart(4, '0')}.chunk`);

/** Every chunk is on disk before the next one begins. */
class FileChunkWriter {
  readonly #folder: string;
  #chunk: FileHandle | undefined;
  #bytes = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  get bytes(): number {
    return this.#bytes;
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let from = 0; from < bytes.length; ) {
      this.#chunk ??= await open(chunkPath(this.#folder, Math.floor(this.#bytes / CHUNK_BYTES)), 'wx', 0o600);
      const room = CHUNK_BYTES - (this.#bytes % CHUNK_BYTES);
      const part = bytes.subarray(from, from + room);
      await this.#chunk.writeFile(part);
      from += part.length;
      this.#bytes += part.length;
      if (part.length === room) await this.end();
    }
  }

  async end(): Promise<void> {
    await this.#chunk?.sync();
    await this.close();
  }

  async close(): Promise<void> {
    const chunk = this.#chunk;
    this.#chunk = undefined;
    await chunk?.close();
  }
}

/** The bytes of a segment that begins at `offset`; undefined if they differ from what was written. */
async function readSegment(folder: string, segment: Segment, offset: number): Promise<Uint8Array | undefined> {
  const end = offset + segment.bytes;
  // Checked before allocating: a manifest can claim more bytes than exist, or than fit in memory.
  for (let index = Math.floor(offset / CHUNK_BYTES); index * CHUNK_BYTES < end; index += 1) {
    const needed = Math.min(end - index * CHUNK_BYTES, CHUNK_BYTES);
    const size = await stat(chunkPath(folder, index)).then((facts) => facts.size, missing);
    if (size === undefined || size < needed) return undefined;
  }
  const bytes = new Uint8Array(segment.bytes);
  for (let at = offset; at < end; ) {
    const inChunk = at % CHUNK_BYTES;
    const part = bytes.subarray(at - offset, Math.min(end - offset, at - offset + CHUNK_BYTES - inChunk));
    if (!(await readInto(part, chunkPath(folder, Math.floor(at / CHUNK_BYTES)), inChunk))) return undefined;
    at += part.length;
  }
  return intact(segment, bytes);
}

async function readWhole(path: string): Promise<Uint8Array | undefined> {
  await using file = await openRegularFile(path);
  return await file?.readFile();
}

async function readInto(part: Uint8Array, path: string, position: number): Promise<boolean> {
  const file = await openRegularFile(path).catch(missing);
  if (!file) return false;
  try {
    for (let done = 0; done < part.length; ) {
      const { bytesRead } = await file.read(part, done, part.length - done, position + done);
      if (bytesRead === 0) return false;
      done += bytesRead;
    }
    return true;
  } catch (error) {
    return missing(error) ?? false;
  } finally {
    await file.close();
  }
}

/** Errors of a damaged disk or a removed file. Any other error, such as missing permissions, is not damage. */
function missing(error: unknown): undefined {
  if (['ENOENT', 'ENOTDIR', 'EISDIR', 'EIO'].includes(systemCode(error) ?? '')) return undefined;
  throw error;
}
