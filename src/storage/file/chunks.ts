/** A checkpoint's data: one run of bytes, in files of 8 MB named by their number. */

import { createHash } from 'node:crypto';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { systemCode } from '../../lib/errno.ts';
import type { Segment } from '../../protocol/kernel-state.ts';
import { openRegularFile } from './regular-files.ts';

export const CHUNK_BYTES = 8 * 1024 * 1024;

const chunkPath = (folder: string, index: number): string => join(folder, `${String(index).padStart(4, '0')}.chunk`);

/** Every chunk is on the disk before the next one is begun. */
export class FileChunkWriter {
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

/** The bytes of a segment that begins at `offset`; undefined if they are not what was written. */
export async function readSegment(folder: string, segment: Segment, offset: number): Promise<Uint8Array | undefined> {
  const end = offset + segment.bytes;
  // Before room is made for them: a manifest may tell of more bytes than there are, or than memory holds.
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
  return sha256(bytes) === segment.sha256 ? bytes : undefined;
}

type Guard = <T>(work: () => Promise<T>) => Promise<T>;

/** All segments, one after the other; a chunk that holds many of them is read once. */
export async function* readSegments(
  segments: readonly Segment[],
  folder: string,
  guard: Guard,
): AsyncGenerator<Uint8Array | undefined> {
  let held: { readonly index: number; readonly bytes: Uint8Array | undefined } | undefined;
  let offset = 0;
  for (const segment of segments) {
    const start = offset;
    const index = Math.floor(start / CHUNK_BYTES);
    offset += segment.bytes;
    if (offset > (index + 1) * CHUNK_BYTES) {
      yield await guard(() => readSegment(folder, segment, start));
      continue;
    }
    if (held?.index !== index) {
      const bytes = await guard(() => readWhole(chunkPath(folder, index)).catch(missing));
      held = { index, bytes };
    }
    const inChunk = start % CHUNK_BYTES;
    const found = held.bytes?.subarray(inChunk, inChunk + segment.bytes);
    const whole = found?.length === segment.bytes && sha256(found) === segment.sha256;
    yield whole ? found : undefined;
  }
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
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

/** What a damaged disk or a removed file says. Anything else, such as missing rights, is no damage. */
function missing(error: unknown): undefined {
  if (['ENOENT', 'ENOTDIR', 'EISDIR', 'EIO'].includes(systemCode(error) ?? '')) return undefined;
  throw error;
}
