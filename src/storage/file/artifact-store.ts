/**
 * Artifacts as plain files, `<folder>/NAME`, which users can edit, copy and add. Their metadata is in
 * `.about/NAME.json`.
 */

import { createHash } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import { type FileHandle, lstat, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { giveWay, inSlices } from '../../lib/event-loop.ts';
import { isStable, makePrivateFolder, syncFolder, writePrivateFile } from '../../lib/private-file.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type ArtifactFacts, ArtifactInfo, checkName } from '../../protocol/namespace-models.ts';
import type { ArtifactReader, ArtifactStore, ArtifactWriter, Clock, Lock, Page } from '../contract.ts';
import { factsByName } from '../media-types.ts';
import { type StagedTarget, StagedWriter } from '../staged-writer.ts';
import { checkStoredFacts, jsonLength } from '../validation.ts';
import { guarded, storageFailed } from './file-errors.ts';
import type { FileLocks } from './locks.ts';
import { FileCounter, listFiles, openRegularFile, pathOfName } from './regular-files.ts';
import type { StagingFolder } from './staging-folder.ts';

/** `stamp` is the version of the file. While it matches, the checksum is still right. */
const SidecarEntry = ArtifactInfo.extend({ stamp: z.string() });
type SidecarEntry = z.infer<typeof SidecarEntry>;

const About = z.object({ newestFirst: z.array(SidecarEntry) });

const sidecarPath = (folder: string, name: string): string => join(folder, '.about', `${name}.json`);

const sidecarText = (newestFirst: readonly SidecarEntry[]): string => `${JSON.stringify({ newestFirst }, null, 1)}\n`;

/** Empty if there is no metadata or it is corrupt: the bytes can still be read. */
async function readSidecar(folder: string, name: string): Promise<readonly SidecarEntry[]> {
  try {
    await using file = await openRegularFile(sidecarPath(folder, name));
    if (!file) return [];
    const text = await file.readFile('utf8');
    // Limits memory: many are read at once, and each can be large.
    await giveWay();
    const parsed = About.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data.newestFirst : [];
  } catch (error) {
    if (error instanceof SyntaxError) return [];
    throw error;
  }
}

/** Two files can have the same size and time, but not the same inode. */
const fileVersion = ({ ino, size, mtimeNs }: BigIntStats): string => [ino, size, mtimeNs].join(' ');

/** The metadata of an open file. A file that a user has changed keeps its type and description. */
async function infoOf(name: string, file: FileHandle, about: readonly SidecarEntry[]): Promise<SidecarEntry> {
  const facts = await file.stat({ bigint: true });
  const stamp = fileVersion(facts);
  const same = about.find((known) => known.stamp === stamp);
  if (same) return { ...same, name };
  const own = { name, size: Number(facts.size), sha256: await sumOf(file, facts), stamp };
  const copied = about.find((known) => known.sha256 === own.sha256);
  if (copied) return { ...copied, ...own };
  const at = Number(facts.mtimeMs);
  const [newest] = about;
  return { createdAt: at, ...factsByName(name), ...newest, ...own, updatedAt: at };
}

const PART_BYTES = 1024 * 1024;
const MOST_SUMS = 1000;
/** Checksums of files that users wrote, so that a list does not read all of them each time. */
const sums = new Map<string, string>();

async function sumOf(file: FileHandle, facts: BigIntStats): Promise<string> {
  const key = [facts.dev, fileVersion(facts), facts.ctimeNs].join(' ');
  const known = sums.get(key);
  if (known !== undefined) return known;
  const settled = isStable(facts);
  const sum = await makeSum(file);
  if (sums.size >= MOST_SUMS) sums.clear();
  if (settled) sums.set(key, sum);
  return sum;
}

async function makeSum(file: FileHandle): Promise<string> {
  const hash = createHash('sha256');
  const part = Buffer.alloc(PART_BYTES);
  for (let at = 0; ; ) {
    const { bytesRead } = await file.read(part, 0, part.length, at);
    if (bytesRead === 0) return hash.digest('hex');
    hash.update(part.subarray(0, bytesRead));
    at += bytesRead;
  }
}

interface ArtifactFolderOptions {
  readonly folder: string;
  readonly staging: StagingFolder;
  /** Only one operation at a time changes the name of a file. */
  readonly locks: FileLocks;
  readonly clock: Clock;
}

const LOCK_WAIT_MS = 30_000;
/** How many files to open at a time for a listing. */
const AT_ONCE = 32;
/** How often to retry if a file is replaced while it is read. */
const ATTEMPTS = 5;

export class FileArtifacts implements ArtifactStore {
  readonly #options: ArtifactFolderOptions;
  readonly #writers = new Set<StagedWriter<ArtifactFacts, ArtifactInfo>>();
  readonly #readers = new Set<FileHandle>();
  readonly #count: FileCounter;
  #closed = false;

  constructor(options: ArtifactFolderOptions) {
    this.#options = options;
    this.#count = new FileCounter(options.folder);
  }

  async begin(name: string): Promise<ArtifactWriter> {
    const checked = checkName(name, 'artifact');
    const { folder, staging } = this.#options;
    if (this.#closed) throw new CellaError('STORAGE_FAILED', `Cannot use ${folder}: the storage is closed.`);
    return guarded('begin an artifact in', folder, async () => {
      const path = await staging.file();
      const file = await open(path, 'wx', 0o600);
      const target = artifactFile(checked, path, file, (written, facts) => this.#publish(checked, written, facts));
      const writer = new StagedWriter(target, {
        what: 'artifact',
        onEnd: () => this.#writers.delete(writer),
        toError: (cause) => storageFailed('write the artifact', checked, cause),
      });
      this.#writers.add(writer);
      return writer;
    });
  }

  async get(name: string): Promise<ArtifactInfo | undefined> {
    await using reader = await this.open(name);
    return reader?.info;
  }

  async list({ after = '', limit = Infinity, enough = Infinity }: Page = {}): Promise<ArtifactInfo[]> {
    const { folder } = this.#options;
    const entries = await guarded('read', folder, () => listFiles(folder, ''));
    const names = entries.map(({ name }) => name).filter((name) => name > after);
    const infos: ArtifactInfo[] = [];
    let length = 0;
    for (let at = 0; at < names.length && infos.length < limit && length < enough; ) {
      await giveWay();
      const next = Math.min(at + AT_ONCE, at + limit - infos.length);
      const some = await Promise.all(names.slice(at, next).map((name) => this.get(name)));
      for await (const info of inSlices(some.filter((info) => info !== undefined))) {
        infos.push(info);
        length += enough === Infinity ? 0 : jsonLength(info);
      }
      at = next;
    }
    return infos;
  }

  holds(count: number): Promise<boolean> {
    return guarded('read', this.#options.folder, () => this.#count.holds(count));
  }

  async open(name: string): Promise<ArtifactReader | undefined> {
    const found = await this.#open(checkName(name, 'artifact'));
    if (!found) return undefined;
    const { file, known } = found;
    this.#readers.add(file);
    return new FileArtifactReader(infoFrom(known), file, () => this.#readers.delete(file));
  }

  async delete(name: string): Promise<boolean> {
    const checked = checkName(name, 'artifact');
    const { folder } = this.#options;
    return this.#inTurn(checked, 'delete', async (path) => {
      const there = await lstat(path).catch(() => undefined);
      if (!there || there.isDirectory()) return false;
      // Deletes the file first: metadata without a file is ignored, but a file without metadata would count as a new artifact.
      await rm(path);
      await syncFolder(folder);
      await rm(sidecarPath(folder, checked), { force: true });
      return true;
    });
  }

  async unlistedBytes(): Promise<number> {
    let bytes = 0;
    for (const writer of this.#writers) bytes += writer.bytes;
    const deleted = new Map<bigint, bigint>();
    for (const file of this.#readers) {
      const facts = await file.stat({ bigint: true }).catch(() => undefined); // closed meanwhile
      if (facts?.nlink === 0n) deleted.set(facts.ino, facts.size);
    }
    return bytes + Number([...deleted.values()].reduce((sum, size) => sum + size, 0n));
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const writer of [...this.#writers]) await writer.abort();
    await this.#options.locks.close();
  }

  #publish(name: string, { path: unfinished, ...sum }: WrittenFile, facts: ArtifactFacts): Promise<ArtifactInfo> {
    return this.#inTurn(name, 'write', async (path) => {
      const { folder, staging, clock } = this.#options;
      const old = await this.#open(name);
      await old?.file.close();
      const at = Math.trunc(clock());
      const known = { ...facts, name, ...sum, createdAt: old?.known.createdAt ?? at, updatedAt: at };
      const about = sidecarPath(folder, name);
      const unfinishedAbout = await staging.file();
      await makePrivateFolder(dirname(about));
      await writePrivateFile(unfinishedAbout, sidecarText([known, ...(old ? [old.known] : [])]));
      await rename(unfinishedAbout, about);
      await syncFolder(dirname(about));
      await rename(unfinished, path);
      this.#count.added();
      await syncFolder(folder);
      return infoFrom(known);
    });
  }

  /** Publishes the file. Its sidecar also keeps the facts of the file before, in case of a crash. */
  async #open(name: string): Promise<{ file: FileHandle; known: SidecarEntry } | undefined> {
    const { folder } = this.#options;
    return guarded('read artifact', name, async () => {
      for (let attempt = 1; ; attempt += 1) {
        const path = await pathOfName(folder, name, '');
        const file = await openRegularFile(path);
        if (!file) return undefined;
        try {
          const known = await infoOf(name, file, await readSidecar(folder, name));
          const now = await stat(path).catch(() => undefined);
          if (now?.ino === (await file.stat()).ino || attempt === ATTEMPTS) return { file, known };
        } catch (error) {
          await file.close();
          throw error;
        }
        await file.close();
      }
    });
  }

  async #inTurn<T>(name: string, action: string, work: (path: string) => Promise<T>): Promise<T> {
    const { folder } = this.#options;
    await using _turn = await this.#turn(name);
    return await guarded(action, `${folder}: ${name}`, async () => work(await pathOfName(folder, name, '')));
  }

  async #turn(name: string): Promise<Lock> {
    try {
      return await this.#options.locks.acquire(name, { waitMs: LOCK_WAIT_MS });
    } catch (error) {
      if (!(error instanceof CellaError && error.code === 'KEY_BUSY')) throw error;
      const message = `Cannot write artifact ${JSON.stringify(name)}: process ${error.details?.pid} has been writing it for too long. End or continue that process.`;
      throw new CellaError('STORAGE_FAILED', message, { details: error.details ?? {} });
    }
  }
}

const infoFrom = ({ stamp: _, ...info }: SidecarEntry): ArtifactInfo => info;

/** Reads one artifact. It stays the file that was opened, even if another gets its name. */
class FileArtifactReader implements ArtifactReader {
  readonly info: ArtifactInfo;
  readonly #file: FileHandle;
  readonly #onClose: () => void;

  constructor(info: ArtifactInfo, file: FileHandle, onClose: () => void) {
    this.info = info;
    this.#file = file;
    this.#onClose = onClose;
  }

  read(offset: number, length: number): Promise<Uint8Array> {
    return guarded('read artifact', this.info.name, async () => {
      const bytes = new Uint8Array(Math.max(0, Math.min(length, this.info.size - offset)));
      for (let done = 0; done < bytes.length; ) {
        const { bytesRead } = await this.#file.read(bytes, done, bytes.length - done, offset + done);
        if (bytesRead === 0) return bytes.subarray(0, done);
        done += bytesRead;
      }
      return bytes;
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#onClose();
    return this.#file.close();
  }
}

/** A completely written file under its own name. */
interface WrittenFile {
  readonly path: string;
  readonly size: number;
  readonly sha256: string;
  readonly stamp: string;
}

/** Writes one artifact to a file that is not visible until it gets its name. */
function artifactFile(
  name: string,
  path: string,
  file: FileHandle,
  publish: (written: WrittenFile, facts: ArtifactFacts) => Promise<ArtifactInfo>,
): StagedTarget<ArtifactFacts, ArtifactInfo> {
  const hash = createHash('sha256');
  let size = 0;
  return {
    write: async (bytes) => {
      await file.writeFile(bytes);
      hash.update(bytes);
      size += bytes.length;
    },
    publish: async (facts) => {
      const checked = checkStoredFacts(name, facts);
      await file.sync();
      const stamp = fileVersion(await file.stat({ bigint: true }));
      await file.close();
      return await publish({ path, size, sha256: hash.digest('hex'), stamp }, checked);
    },
    discard: async () => {
      await file.close();
      await rm(path, { force: true }).catch((cause) => {
        throw storageFailed('remove', path, cause);
      });
    },
  };
}
