/** What lies below a folder and fits a pattern, by path. Links are told and not followed. */

import { lstat, opendir } from 'node:fs/promises';
import { CellaError } from '../../protocol/errors.ts';
import type { FileEntry } from '../contract.ts';
import { below } from './folder-watches.ts';
import type { Glob } from './glob.ts';
import type { HeldFolder } from './held-folder.ts';
import { kindOf } from './kind.ts';

/** A list that is cut without a word would be taken for the whole. */
const MOST_LISTED = 100_000;
const MOST_LOOKED_AT = 1_000_000;
const MOST_DEEP = 64;
const AT_ONCE = 64;

export async function listTree(folder: HeldFolder, glob: Glob): Promise<FileEntry[]> {
  const found: FileEntry[] = [];
  let lookedAt = 0;

  const look = async (at: HeldFolder, path: string, depth: number): Promise<void> => {
    const folders: string[] = [];
    let names: string[] = [];
    const take = async () => {
      const taken = names;
      names = [];
      for (const entry of await Promise.all(taken.map((name) => entryOf(at, path, name)))) {
        if (entry) found.push(entry);
      }
      if (found.length > MOST_LISTED) throw tooMany();
    };
    for await (const entry of await opendir(at.path(), { bufferSize: 512 })) {
      if (++lookedAt > MOST_LOOKED_AT) throw tooMany();
      const inner = below(path, entry.name);
      if (entry.isDirectory() && depth < MOST_DEEP && glob.reaches(inner)) folders.push(entry.name);
      if (glob.matches(inner)) names.push(entry.name);
      if (names.length >= AT_ONCE) await take();
    }
    await take();
    for (const name of folders) {
      const opened = await at.folder(name).catch(() => undefined); // gone meanwhile, or a link by now
      if (!opened) continue;
      await using inside = opened;
      await look(inside, below(path, name), depth + 1);
    }
  };

  await look(folder, '', 0);
  return found.sort((one, other) => (one.path < other.path ? -1 : 1));
}

async function entryOf(folder: HeldFolder, path: string, name: string): Promise<FileEntry | undefined> {
  const stats = await lstat(folder.path(name)).catch(() => undefined); // gone meanwhile
  if (!stats) return undefined;
  const modifiedAt = Math.trunc(stats.mtimeMs);
  return { path: below(path, name), type: kindOf(stats), bytes: stats.size, modifiedAt };
}

function tooMany(): CellaError {
  const advice = 'List a folder further down, or give a pattern that fits less.';
  return new CellaError('TOO_LARGE', `There are more files than the ${MOST_LISTED} that a list has.`, { advice });
}
