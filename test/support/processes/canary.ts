/**
 * Looks for a known secret wherever a process could have left it: environments, command lines, memory, open files, folders
 * and texts. It knows the usual spellings of bytes, and gives the places where it found one.
 */

import { closeSync, type Dirent, openSync, readdirSync, readFileSync, readlinkSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { descendants } from './processes.ts';

export interface CanaryPlaces {
  /** With everything that they have started and that still runs. */
  readonly processes?: readonly number[];
  /** Also their memory, which a dump of a crash would hold. */
  readonly memory?: boolean;
  /** Every file below them, its name included. Links are not followed. */
  readonly folders?: readonly string[];
  /** Logs, events, answers …, by what they are called. */
  readonly texts?: Readonly<Record<string, string>>;
}

const PIECE_BYTES = 4 * 1024 * 1024;

/** Where the secret is; empty where it is nowhere. */
export function canariesIn(secret: string, places: CanaryPlaces): string[] {
  const { processes = [], memory = false, folders = [], texts = {} } = places;
  const spellings = spellingsOf(secret);
  const found: string[] = [];
  const look = (place: string, bytes: Buffer) => {
    if (spellings.some((spelling) => bytes.includes(spelling))) found.push(place);
  };
  // Memory is large, and holds what is used as text: no other spelling is looked for there.
  const inMemory = [Buffer.from(secret), Buffer.from(secret, 'utf16le')];
  for (const [name, text] of Object.entries(texts)) look(name, Buffer.from(text));
  for (const pid of processes.flatMap((root) => [root, ...descendants(root).map((each) => each.pid)])) {
    for (const part of ['environ', 'cmdline', 'status']) look(`/proc/${pid}/${part}`, read(`/proc/${pid}/${part}`));
    for (const path of openFiles(pid)) lookInFile(path, look);
    if (memory)
      lookInMemory(pid, (place, bytes) => void (inMemory.some((text) => bytes.includes(text)) && found.push(place)));
  }
  for (const folder of folders) {
    for (const entry of entriesIn(folder)) {
      const path = join(entry.parentPath, entry.name);
      look(`the name of ${path}`, Buffer.from(entry.name));
      if (entry.isFile()) lookInFile(path, look);
      if (entry.isSymbolicLink()) look(`the link ${path}`, Buffer.from(readlinkSync(path)));
    }
  }
  return [...new Set(found)];
}

/** As it is, in hex, in a URL, backwards, and in base64 wherever it begins in what was encoded. */
export function spellingsOf(secret: string): Buffer[] {
  const bytes = Buffer.from(secret);
  const base64 = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replace(/=+$/, '');
    // The characters at both ends also hold bits of what stands around it.
    return text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
  });
  const plain = [secret, encodeURIComponent(secret), [...secret].toReversed().join(''), bytes.toString('hex')];
  const all = [...plain, ...base64, ...base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_'))];
  return [...new Set(all)].map((text) => Buffer.from(text));
}

type Look = (place: string, bytes: Buffer) => void;

/** Also those that have no name any more. */
function openFiles(pid: number): string[] {
  return list(`/proc/${pid}/fd`)
    .map((name) => `/proc/${pid}/fd/${name}`)
    .filter((path) => isFile(path));
}

function lookInFile(path: string, look: Look): void {
  let handle: number;
  try {
    handle = openSync(path, 'r');
  } catch {
    return; // it went away meanwhile
  }
  try {
    lookThrough(handle, { from: 0, to: Number.MAX_SAFE_INTEGER }, (bytes) => look(path, bytes));
  } finally {
    closeSync(handle);
  }
}

interface Range {
  readonly from: number;
  readonly to: number;
}

function lookInMemory(pid: number, look: Look): void {
  const regions = read(`/proc/${pid}/maps`)
    .toString()
    .matchAll(/^([0-9a-f]+)-([0-9a-f]+) rw/gm);
  const ranges = [...regions].map(([, from = '', to = '']) => ({ from: Number(`0x${from}`), to: Number(`0x${to}`) }));
  if (ranges.length === 0) return;
  const [memory, pages] = ['mem', 'pagemap'].map((name) => openSync(`/proc/${pid}/${name}`, 'r')) as [number, number];
  try {
    for (const range of ranges.flatMap((each) => used(pages, each))) {
      lookThrough(memory, range, (bytes) => look(`the memory of ${pid}`, bytes));
    }
  } finally {
    closeSync(memory);
    closeSync(pages);
  }
}

const PAGE_BYTES = 4096;
/** Of the eight bytes that tell of a page, those of the last one that say that it is in memory, or swapped out. */
const THERE = 0xc0;

/** Programs reserve far more than they use: the parts of it that hold anything. */
function used(pages: number, { from, to }: Range): Range[] {
  const told = Buffer.alloc(((to - from) / PAGE_BYTES) * 8);
  const size = readAt(pages, told, (from / PAGE_BYTES) * 8, told.length);
  const found: { from: number; to: number }[] = [];
  for (let at = 0; at < size; at += 8) {
    if (((told[at + 7] ?? 0) & THERE) === 0) continue;
    const begin = from + (at / 8) * PAGE_BYTES;
    const last = found.at(-1);
    if (last?.to === begin) last.to += PAGE_BYTES;
    else found.push({ from: begin, to: begin + PAGE_BYTES });
  }
  return found;
}

/** In pieces that overlap, so that nothing hides at the end of one. */
function lookThrough(handle: number, { from, to }: Range, look: (bytes: Buffer) => void): void {
  const overlap = 64 * 1024;
  const piece = Buffer.alloc(PIECE_BYTES);
  for (let at = from; at < to; ) {
    const size = readAt(handle, piece, at, Math.min(PIECE_BYTES, to - at));
    look(piece.subarray(0, size));
    if (size <= overlap) return;
    at += size - overlap;
    if (at + overlap >= to) return;
  }
}

function readAt(handle: number, into: Buffer, at: number, length: number): number {
  try {
    return readSync(handle, into, 0, length, at);
  } catch {
    return 0; // memory that cannot be read, such as that of a device, holds nothing of ours
  }
}

const entriesIn = (folder: string): Dirent[] => readdirSync(folder, { recursive: true, withFileTypes: true });

/** What goes away while it is looked at is empty. */
function read(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch {
    return Buffer.alloc(0);
  }
}

function list(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return []; // the process has ended
  }
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
