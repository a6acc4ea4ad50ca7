/** What one file in a zip holds: never more than its directory has said, and checked at its end. */

import type { FileHandle } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { crc32, createInflateRaw } from 'node:zlib';
import { Failed } from './failed.ts';
import { readAt, type ZipEntry } from './zip-directory.ts';

const HEADER_BYTES = 30;
const PIECE_BYTES = 256 * 1024;

export async function* contentOf(file: FileHandle, entry: ZipEntry): AsyncGenerator<Buffer> {
  const start = await dataStart(file, entry);
  const packed = pieces(file, start, start + entry.packedBytes);
  let bytes = 0;
  let crc = 0;
  for await (const piece of entry.method === 'stored' ? packed : inflated(packed, entry)) {
    bytes += piece.length;
    if (bytes > entry.bytes) throw damaged(entry);
    crc = crc32(piece, crc);
    yield piece;
  }
  if (bytes !== entry.bytes || crc !== entry.crc) throw damaged(entry);
}

export async function readContent(file: FileHandle, entry: ZipEntry, mostBytes: number): Promise<Buffer> {
  if (entry.bytes > mostBytes) throw new Failed(`${entry.path} in it is larger than ${mostBytes} bytes`);
  return await buffer(contentOf(file, entry));
}

/** Both places name it: a reader that trusts the one must not see another file than a reader that trusts the other. */
async function dataStart(file: FileHandle, entry: ZipEntry): Promise<number> {
  const header = await readAt(file, entry.offset, entry.offset + HEADER_BYTES);
  const nameStart = entry.offset + HEADER_BYTES;
  const nameEnd = nameStart + header.readUInt16LE(26);
  const name = (await readAt(file, nameStart, nameEnd)).toString('utf8');
  if (header.toString('latin1', 0, 4) !== 'PK\x03\x04' || name !== entry.path) throw damaged(entry);
  return nameEnd + header.readUInt16LE(28);
}

async function* pieces(file: FileHandle, start: number, end: number): AsyncGenerator<Buffer> {
  for (let at = start; at < end; at += PIECE_BYTES) yield await readAt(file, at, Math.min(end, at + PIECE_BYTES));
}

async function* inflated(packed: AsyncIterable<Buffer>, entry: ZipEntry): AsyncGenerator<Buffer> {
  const inflate = createInflateRaw();
  const source = Readable.from(packed);
  source.once('error', (error) => inflate.destroy(error));
  source.pipe(inflate);
  try {
    for await (const piece of inflate) yield piece;
  } catch (error) {
    throw error instanceof Failed ? error : damaged(entry);
  } finally {
    source.destroy();
    inflate.destroy();
  }
}

function damaged({ path }: ZipEntry): Failed {
  return new Failed(`${path} in it is damaged`);
}
