/** Files with output that is too large for an event: one folder for each session, in the data folder. */

import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { sortedInSlices } from '../../lib/event-loop.ts';
import { entriesOf, removeOwnTree } from '../../lib/large-folders.ts';
import { systemCode } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { OutputFile } from '../../protocol/execution-events.ts';
import type { JsonText } from '../../protocol/json-pieces.ts';
import { newSortableId } from '../ids.ts';
import type { OutputContent } from '../sessions/session-types.ts';

const FILE = /^out_[0-9a-z]{16}\.(txt|json)$/;
const mediaTypes = { txt: 'text/plain; charset=utf-8', json: 'application/json' } as const;
type OutputKind = keyof typeof mediaTypes;
/** A smaller file counts as this size, because code can make any number of files. */
const LEAST_FILE_BYTES = 16 * 1024;

/** The size that limits on the bytes of files use. */
export const countedBytes = (bytes: number): number => Math.max(bytes, LEAST_FILE_BYTES);

export class OutputFiles {
  readonly #folder: string;
  /** Files that are being written. */
  readonly #growing = new Set<string>();

  constructor(dataDir: string, sessionId: string) {
    this.#folder = join(dataDir, 'outputs', sessionId);
  }

  async begin(kind: OutputKind, mostBytes: number): Promise<OutputFileWriter> {
    const file = `${newSortableId('out')}.${kind}`;
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      const handle = await open(join(this.#folder, file), 'ax', 0o600);
      this.#growing.add(file);
      return new OutputFileWriter(handle, { file, mediaType: mediaTypes[kind], mostBytes }, () =>
        this.#growing.delete(file),
      );
    } catch (cause) {
      throw writeFailed(join(this.#folder, file), cause);
    }
  }

  /** Writes a whole text. It is durable when this resolves. */
  async keep(kind: OutputKind, text: JsonText): Promise<OutputFile> {
    await using output = await this.begin(kind, Number.POSITIVE_INFINITY);
    for (const piece of typeof text === 'string' ? [text] : text) await output.write(piece);
    await output.flush();
    return output.facts;
  }

  async open(file: string): Promise<OutputContent> {
    const kind = FILE.exec(file)?.[1];
    const path = join(this.#folder, file);
    const facts = kind === undefined ? undefined : await stat(path).catch(() => undefined); // it does not exist
    if (!facts?.isFile()) throw new CellaError('NOT_FOUND', 'There is no such file, or it has been removed.');
    const bytes = facts.size;
    return {
      mediaType: kind === 'json' ? mediaTypes.json : mediaTypes.txt,
      bytes,
      read: ({ offset = 0 } = {}) =>
        offset >= bytes ? noBytes() : createReadStream(path, { start: offset, end: bytes - 1 }),
    };
  }

  async readBytes(file: string): Promise<Buffer> {
    const parts: Uint8Array[] = [];
    for await (const part of (await this.open(file)).read()) parts.push(part);
    return Buffer.concat(parts);
  }

  /** Removes files from before a time, and the oldest if all together are too large. */
  async trim({ olderThan, maxBytes }: { readonly olderThan: number; readonly maxBytes: number }): Promise<void> {
    const names = await this.#names();
    let left = maxBytes;
    // Names sort by the time of creation.
    for (const name of await sortedInSlices(names, (one, other) => (one < other ? 1 : -1))) {
      if (this.#growing.has(name)) continue;
      const path = join(this.#folder, name);
      const facts = await stat(path).catch(() => undefined); // removed meanwhile
      if (!facts) continue;
      left -= countedBytes(facts.size);
      if (left < 0 || facts.mtimeMs < olderThan) await rm(path, { force: true });
    }
  }

  async remove(): Promise<void> {
    await removeOwnTree(this.#folder);
  }

  async #names(): Promise<string[]> {
    const names: string[] = [];
    try {
      for await (const { name } of entriesOf(this.#folder)) if (FILE.test(name)) names.push(name);
    } catch {
      // There is no folder.
    }
    return names;
  }
}

interface WriterFacts {
  readonly file: string;
  readonly mediaType: string;
  readonly mostBytes: number;
}

/** A file that is being written, a chunk at a time. The writer waits for the disk. */
export class OutputFileWriter implements AsyncDisposable {
  readonly #handle: FileHandle;
  readonly #made: WriterFacts;
  readonly #done: () => void;
  #bytes = 0;
  /** Bytes beyond the limit that were dropped. */
  cutBytes = 0;

  constructor(handle: FileHandle, made: WriterFacts, done: () => void) {
    this.#handle = handle;
    this.#made = made;
    this.#done = done;
  }

  get facts(): OutputFile {
    return { file: this.#made.file, mediaType: this.#made.mediaType, bytes: this.#bytes };
  }

  async write(text: string | Buffer): Promise<void> {
    const bytes = typeof text === 'string' ? Buffer.from(text) : text;
    if (this.#bytes + bytes.length > this.#made.mostBytes) {
      this.cutBytes += bytes.length;
      return;
    }
    try {
      for (let at = 0; at < bytes.length; ) at += (await this.#handle.write(bytes, at)).bytesWritten;
    } catch (cause) {
      throw writeFailed(this.#made.file, cause);
    }
    this.#bytes += bytes.length;
  }

  async flush(): Promise<void> {
    try {
      await this.#handle.datasync();
    } catch (cause) {
      throw writeFailed(this.#made.file, cause);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#done();
    await this.#handle.close();
  }
}

async function* noBytes(): AsyncGenerator<Uint8Array> {}

function writeFailed(path: string, cause: unknown): CellaError {
  const code = systemCode(cause);
  const reason = code === 'ENOSPC' ? 'the disk is full' : String(cause);
  return new CellaError('STORAGE_FAILED', `Cannot write the output file ${path}: ${reason}.`, { cause });
}
