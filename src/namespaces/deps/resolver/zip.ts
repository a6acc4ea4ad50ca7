/** Reads ZIP archives strictly: directory and headers must agree, checksums must match, no path may lead out. */

import type { FileHandle } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { crc32, createInflateRaw } from 'node:zlib';
import { giveWay, inSlices } from '../../../lib/event-loop.ts';
import { ResolutionError } from './resolver-limits.ts';

export interface ZipEntry {
  /** A relative path with `/`, which cannot lead out of its folder. */
  readonly path: string;
  readonly isFolder: boolean;
  readonly isExecutable: boolean;
  readonly method: 'stored' | 'deflated';
  readonly crc: number;
  readonly packedBytes: number;
  readonly bytes: number;
  /** The offset of its local header. */
  readonly offset: number;
}

interface ZipLimits {
  readonly files: number;
  readonly unpackedBytes: number;
}

const END_BYTES = 22;
const LONGEST_COMMENT = 65_535;
const ENTRY_BYTES = 46;
const LARGEST_DIRECTORY = 64 * 1024 * 1024;
const TYPE = 0o170000;
const FOLDER = 0o040000;
const PLAIN = 0o100000;

export async function readDirectory(file: FileHandle, limits: ZipLimits): Promise<ZipEntry[]> {
  const { size } = await file.stat();
  const tail = await readAt(file, Math.max(0, size - END_BYTES - LONGEST_COMMENT), size);
  const end = tail.lastIndexOf('PK\x05\x06');
  if (end < 0 || end + END_BYTES > tail.length) throw new ResolutionError('it is not a zip file');
  const count = tail.readUInt16LE(end + 10);
  const bytes = tail.readUInt32LE(end + 12);
  const start = tail.readUInt32LE(end + 16);
  if (count > limits.files || count === 0xffff) throw new ResolutionError(`it holds more than ${limits.files} files`);
  if (bytes > LARGEST_DIRECTORY || start + bytes > size) throw new ResolutionError('its directory is damaged');
  const directory = await readAt(file, start, start + bytes);
  const entries: ZipEntry[] = [];
  for await (const entry of inSlices(entriesIn(directory, count))) entries.push(entry);
  await giveWay();
  checkTogether(entries, limits);
  return entries;
}

/** Reads exactly this many bytes. Fails if the file ends before. */
export async function readAt(file: FileHandle, start: number, end: number): Promise<Buffer> {
  const buffer = Buffer.alloc(end - start);
  for (let done = 0; done < buffer.length; ) {
    const { bytesRead } = await file.read(buffer, done, buffer.length - done, start + done);
    if (bytesRead === 0) throw new ResolutionError('it ends too early');
    done += bytesRead;
  }
  return buffer;
}

function* entriesIn(directory: Buffer, count: number): Generator<ZipEntry> {
  let at = 0;
  for (let index = 0; index < count; index += 1) {
    if (at + ENTRY_BYTES > directory.length || directory.toString('latin1', at, at + 4) !== 'PK\x01\x02') {
      throw new ResolutionError('its directory is damaged');
    }
    const nameBytes = directory.readUInt16LE(at + 28);
    const end = at + ENTRY_BYTES + nameBytes;
    if (end > directory.length) throw new ResolutionError('its directory is damaged');
    yield entryAt(directory, at, directory.toString('utf8', at + ENTRY_BYTES, end));
    at = end + directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32);
  }
}

function entryAt(directory: Buffer, at: number, name: string): ZipEntry {
  const shown = JSON.stringify(name.slice(0, 200));
  const isUnix = directory[at + 5] === 3;
  const mode = isUnix ? directory.readUInt16LE(at + 40) : 0;
  const type = mode & TYPE;
  const isFolder = name.endsWith('/');
  if (type !== 0 && type !== (isFolder ? FOLDER : PLAIN))
    throw new ResolutionError(`${shown} in it is neither file nor folder`);
  if ((directory.readUInt16LE(at + 8) & 0x2041) !== 0) throw new ResolutionError(`${shown} in it is encrypted`);
  const method = directory.readUInt16LE(at + 10);
  if (method !== 0 && method !== 8) throw new ResolutionError(`${shown} in it has an unknown compression`);
  const path = isFolder ? name.slice(0, -1) : name;
  if (!staysInside(path)) throw new ResolutionError(`${shown} in it leads out of its folder`);
  const [packedBytes, bytes, offset] = [20, 24, 42].map((field) => directory.readUInt32LE(at + field)) as [
    number,
    number,
    number,
  ];
  if ([packedBytes, bytes, offset].includes(0xffffffff)) throw new ResolutionError(`${shown} in it is too large`);
  const crc = directory.readUInt32LE(at + 16);
  const isExecutable = (mode & 0o111) !== 0;
  return {
    path,
    isFolder,
    isExecutable,
    method: method === 0 ? 'stored' : 'deflated',
    crc,
    packedBytes,
    bytes,
    offset,
  };
}

/** Whether no part is empty, `..`, or has another meaning on another system. */
export function staysInside(path: string): boolean {
  if (path.length > 1000 || /[\\\p{Cc}\ufffd]/u.test(path) || /^[A-Za-z]:/.test(path)) return false;
  return path
    .split('/')
    .every((part) => part !== '' && part !== '.' && part !== '..' && Buffer.byteLength(part) <= 255);
}

function checkTogether(entries: readonly ZipEntry[], { unpackedBytes }: ZipLimits): void {
  const total = entries.reduce((sum, { bytes }) => sum + bytes, 0);
  if (total > unpackedBytes) throw new ResolutionError(`it is larger than ${unpackedBytes} bytes when it is unpacked`);
  const files = entries.filter(({ isFolder }) => !isFolder);
  const paths = new Set(files.map(({ path }) => path));
  if (paths.size < files.length) throw new ResolutionError('two files in it have the same name');
}

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
  if (entry.bytes > mostBytes) throw new ResolutionError(`${entry.path} in it is larger than ${mostBytes} bytes`);
  return await buffer(contentOf(file, entry));
}

/** Checks that directory and local header agree, as another reader may trust the other one. */
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
    throw error instanceof ResolutionError ? error : damaged(entry);
  } finally {
    source.destroy();
    inflate.destroy();
  }
}

function damaged({ path }: ZipEntry): ResolutionError {
  return new ResolutionError(`${path} in it is damaged`);
}
