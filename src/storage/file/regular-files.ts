/** Lists, counts and opens the regular files of a folder that users can also change. */

import { constants, type Dirent } from 'node:fs';
import { type FileHandle, open, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { giveWay, sortedInSlices } from '../../lib/event-loop.ts';
import { systemCode } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import { isName } from '../../protocol/namespace-models.ts';

export interface NamedFile {
  /** The name in its canonical spelling. */
  readonly name: string;
  readonly path: string;
}

/** Users can put any number of files there. All names are in memory while they are sorted, and growing a much larger map blocks for more than 50 ms. */
const MOST_FILES = 250_000;

/**
 * Sorted by name. Omits links, folders and names that Cella never uses. Throws STORAGE_FAILED if there are more than `most`.
 */
export async function listFiles(folder: string, ending: string, { most = MOST_FILES } = {}): Promise<NamedFile[]> {
  const found = new Map<string, NamedFile>();
  for await (const file of entriesOf(folder)) {
    const name = nameOf(file, ending);
    // If two spellings of a name exist, the canonical one wins.
    if (name === undefined || (file.name !== `${name}${ending}` && found.has(name))) continue;
    found.set(name, { name, path: join(folder, file.name) });
    if (found.size > most) throw tooMany(folder, `more than ${most} files`);
  }
  return await sortedInSlices([...found.values()], (one, other) => (one.name < other.name ? -1 : 1));
}

/** The normalized name; undefined if the entry is not a file with a valid name. */
function nameOf(entry: Dirent, ending: string): string | undefined {
  if (!entry.isFile() || !entry.name.endsWith(ending)) return undefined;
  const written = entry.name.slice(0, entry.name.length - ending.length);
  return isName(written) ? written.normalize('NFC') : undefined;
}

/** Reads a folder in parts, so that a large one does not block other work. A missing folder is empty. */
async function* entriesOf(folder: string): AsyncGenerator<Dirent> {
  try {
    for await (const entry of await opendir(folder, { bufferSize: ENTRIES_AT_ONCE })) {
      await giveWay();
      yield entry;
    }
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
  }
}

const ENTRIES_AT_ONCE = 256;

/** `what`: "more than 10 files". */
export function tooMany(folder: string, what: string): CellaError {
  const advice = 'Move some of them to a folder that Cella does not use.';
  return new CellaError('STORAGE_FAILED', `Cannot read ${folder}: it has ${what}.`, {
    advice,
    details: { path: folder },
  });
}

/** The path of a name, even if the file spells it differently; else the path for a new file. Builds no list, to avoid garbage on each call. */
export async function pathOfName(folder: string, name: string, ending: string): Promise<string> {
  const ours = join(folder, `${name}${ending}`);
  // ASCII names have only one spelling.
  if (/^[\x20-\x7e]*$/.test(name)) return ours;
  let other: string | undefined;
  for await (const file of entriesOf(folder)) {
    if (nameOf(file, ending) !== name) continue;
    if (file.name === `${name}${ending}`) return ours;
    other ??= join(folder, file.name);
  }
  return other ?? ours;
}

/** Opens only regular files: links are not followed, and a pipe does not block. */
export async function openRegularFile(path: string): Promise<FileHandle | undefined> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    if ((await file.stat()).isFile()) return file;
  } catch (error) {
    await file?.close();
    if (['ENOENT', 'ELOOP', 'ENXIO'].includes(systemCode(error) ?? '')) return undefined;
    throw error;
  }
  await file.close();
  return undefined;
}

/** A count is reused for 20 times as long as it took, at most 2 s, because other processes can add files. */
const TIMES = 20;
const LONGEST_KNOWN_MS = 2000;

/** Counts the files of a folder, without listing it each time. */
export class FileCounter {
  readonly #folder: string;
  /** At least the number of files that this process knows of. */
  #known: { count: number; readonly until: number } | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Counts a file that was written here. It may have replaced another. */
  added(): void {
    if (this.#known) this.#known.count += 1;
  }

  async holds(count: number): Promise<boolean> {
    const begun = performance.now();
    // Only a count below the limit can be trusted from memory, because it includes replaced and deleted files.
    if (this.#known && begun < this.#known.until && this.#known.count < count) return false;
    let found = 0;
    for await (const { name } of entriesOf(this.#folder)) {
      if (found >= count) break;
      if (!name.startsWith('.')) found++;
    }
    if (found >= count) return true;
    const now = performance.now();
    this.#known = { count: found, until: now + Math.min(LONGEST_KNOWN_MS, TIMES * (now - begun)) };
    return false;
  }
}
