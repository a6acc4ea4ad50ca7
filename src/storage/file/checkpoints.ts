/** Checkpoints as plain files, `<folder>/<agent>/<id>/`: they can be read whatever becomes of the database. */

import { createHash } from 'node:crypto';
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { systemCode } from '../../lib/errno.ts';
import { makePrivateFolder, syncFolder, writePrivateFile } from '../../lib/private-file.ts';
import { SerialQueue } from '../../lib/queues.ts';
import { CellaError } from '../../protocol/errors.ts';
import { CHECKPOINT_FORMAT, Manifest } from '../../protocol/kernel-state.ts';
import type { CheckpointStore, CheckpointWriter, DamagedCheckpoint } from '../contract.ts';
import { folderName } from '../folder-name.ts';
import { type StagedTarget, StagedWriter } from '../staged-writer.ts';
import { checkManifest } from '../validation.ts';
import { FileChunkWriter, readSegment, readSegments } from './chunks.ts';
import { explain, guarded, storageFailed } from './file-errors.ts';
import { openRegularFile } from './regular-files.ts';
import type { StagingFolder } from './staging-folder.ts';

export class FileCheckpoints implements CheckpointStore {
  readonly #folder: string;
  readonly #staging: StagingFolder;
  readonly #writers = new Set<CheckpointWriter>();
  /** One at a time, so that each gets a place of its own in the order. */
  readonly #publishing = new SerialQueue();
  #closed = false;

  constructor(folder: string, staging: StagingFolder) {
    this.#folder = folder;
    this.#staging = staging;
  }

  async begin(agentKey: string): Promise<CheckpointWriter> {
    if (this.#closed) throw new CellaError('STORAGE_FAILED', `Cannot use ${this.#folder}: the storage is closed.`);
    const unfinished = await guarded('begin a checkpoint in', this.#folder, () => this.#staging.make());
    const publish = (manifest: Manifest) => this.#publishing.run(() => this.#publish(agentKey, unfinished, manifest));
    const writer: CheckpointWriter = new StagedWriter(checkpointFolder(unfinished, publish), {
      what: 'checkpoint',
      onEnd: () => this.#writers.delete(writer),
      toError: (cause) => storageFailed('write the checkpoint in', unfinished, cause),
    });
    this.#writers.add(writer);
    return writer;
  }

  async list(agentKey: string): Promise<Manifest[]> {
    const whole = (await this.#all(agentKey)).flatMap(({ stored }) => (stored.kind === 'whole' ? [stored] : []));
    whole.sort((one, other) => one.sequence - other.sequence || (one.manifest.id < other.manifest.id ? -1 : 1));
    return whole.map(({ manifest }) => manifest);
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
    return readSegments(manifest.segments, path, (work) => guarded('read', path, work));
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

  async #all(agentKey: string): Promise<{ name: string; stored: StoredManifest }[]> {
    const folder = join(this.#folder, folderName(agentKey));
    const entries = await guarded('read', folder, () =>
      readdir(folder, { withFileTypes: true }).catch((error) => {
        if (systemCode(error) === 'ENOENT') return [];
        throw error;
      }),
    );
    const names = entries.filter((entry) => entry.isDirectory() && plainName.test(entry.name)).map(({ name }) => name);
    const all: { name: string; stored: StoredManifest }[] = [];
    for (const name of names) all.push({ name, stored: ofFolder(name, await readManifest(join(folder, name))) });
    return all;
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

/** A manifest under another checkpoint's name is not that checkpoint's. */
function ofFolder(name: string, stored: StoredManifest): StoredManifest {
  if (stored.kind !== 'whole' || idName(stored.manifest.id) === name) return stored;
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
      await rm(folder, { recursive: true, force: true }).catch((cause) => {
        throw storageFailed('remove', folder, cause);
      });
    },
  };
}

/** No manifest is nearly as long; what is, is not read into memory. */
const MAX_BYTES = 64 * 1024 * 1024;

type StoredManifest =
  | { readonly kind: 'whole'; readonly manifest: Manifest; readonly sequence: number }
  | { readonly kind: 'damaged'; readonly reason: string }
  | { readonly kind: 'absent' };

async function writeManifest(folder: string, manifest: Manifest, sequence: number): Promise<void> {
  const content = { ...manifest, sequence };
  await writePrivateFile(fileIn(folder), `${JSON.stringify({ ...content, checksum: checksum(content) })}\n`);
}

/** Whatever is there, this says what it is, and does not throw. */
async function readManifest(folder: string): Promise<StoredManifest> {
  try {
    await using file = await openRegularFile(fileIn(folder));
    const { size } = file ? await file.stat() : await stat(fileIn(folder));
    if (!file) return damaged('the manifest cannot be read: it is no plain file');
    if (size > MAX_BYTES) return damaged(`the manifest has ${size} bytes`);
    return parse(await file.readFile('utf8'));
  } catch (error) {
    if (systemCode(error) === 'ENOENT' && !(await exists(folder))) return { kind: 'absent' };
    return damaged(`the manifest cannot be read: ${explain(error).reason}`);
  }
}

function parse(text: string): StoredManifest {
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch {
    return damaged('the manifest is not JSON');
  }
  if (typeof content !== 'object' || content === null) return damaged('the manifest is not an object');
  if ('format' in content && typeof content.format === 'number' && content.format > CHECKPOINT_FORMAT) {
    return damaged(
      `the manifest has format ${content.format}, and this Cella reads format ${CHECKPOINT_FORMAT}: use a newer one`,
    );
  }
  const { checksum: sum, ...rest } = content as { checksum?: unknown };
  if (sum !== checksum(rest)) return damaged('the manifest was changed or cut: its checksum does not fit');
  const { sequence, ...fields } = rest as { sequence?: unknown };
  const manifest = Manifest.safeParse(fields);
  if (!manifest.success) return damaged(`the manifest is not one: ${manifest.error.issues[0]?.message}`);
  return { kind: 'whole', manifest: manifest.data, sequence: Number(sequence) };
}

const damaged = (reason: string): StoredManifest => ({ kind: 'damaged', reason });

const checksum = (content: object): string => createHash('sha256').update(JSON.stringify(content)).digest('hex');

const fileIn = (folder: string): string => join(folder, 'manifest.json');

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );
