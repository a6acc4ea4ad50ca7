/** Lists, counts and opens the regular files of a folder that people may change, too. */

import { constants } from 'node:fs';
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { systemCode } from '../../lib/errno.ts';
import { inSlices, sortedInSlices } from '../../lib/event-loop.ts';
import { isName } from '../../protocol/namespace-models.ts';

export interface NamedFile {
  /** In its one spelling. */
  readonly name: string;
  readonly path: string;
}

/** By name. Links, folders and names that nothing of ours may have are left out. */
export async function listFiles(folder: string, ending: string): Promise<NamedFile[]> {
  const found = new Map<string, NamedFile>();
  const files = await readdir(folder, { withFileTypes: true }).catch((error) => {
    if (systemCode(error) === 'ENOENT') return [];
    throw error;
  });
  for await (const file of inSlices(files)) {
    if (!file.isFile() || !file.name.endsWith(ending)) continue;
    const written = file.name.slice(0, file.name.length - ending.length);
    const name = written.normalize('NFC');
    // Of two spellings of one name, ours counts.
    if (isName(written) && (written === name || !found.has(name))) {
      found.set(name, { name, path: join(folder, file.name) });
    }
  }
  return await sortedInSlices([...found.values()], (one, other) => (one.name < other.name ? -1 : 1));
}

/** The path of a name, also if the file spells it differently; else the path it would get. */
export async function pathOfName(folder: string, name: string, ending: string): Promise<string> {
  // Names of plain letters have one spelling.
  const other = /^[\x20-\x7e]*$/.test(name) ? undefined : await listFiles(folder, ending);
  return other?.find((entry) => entry.name === name)?.path ?? join(folder, `${name}${ending}`);
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

/** A count is reused for 20 times as long as it took, at most 2 s: others may add files, too. */
const TIMES = 20;
const LONGEST_KNOWN_MS = 2000;

/** Counts the files of a folder, without listing it each time. */
export class FileCounter {
  readonly #folder: string;
  /** No fewer than there are, as far as this process knows. */
  #known: { count: number; readonly until: number } | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** A file was written here, which may have taken the place of another. */
  added(): void {
    if (this.#known) this.#known.count += 1;
  }

  async holds(count: number): Promise<boolean> {
    const begun = performance.now();
    // Only what is known to be too few is taken from memory: those that were replaced or deleted count there.
    if (this.#known && begun < this.#known.until && this.#known.count < count) return false;
    const files = await this.#files();
    const now = performance.now();
    this.#known = { count: files.length, until: now + Math.min(LONGEST_KNOWN_MS, TIMES * (now - begun)) };
    return files.length >= count;
  }

  /** Ignores names that begin with a dot. */
  async #files(): Promise<string[]> {
    try {
      return (await readdir(this.#folder)).filter((name) => !name.startsWith('.'));
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return [];
      throw error;
    }
  }
}
