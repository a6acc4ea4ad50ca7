/** What lies below a folder and fits a pattern, by path. Links are told and not followed. */

import { inSlices, sortedInSlices } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { FileEntry } from '../contract.ts';
import type { Files } from './files.ts';
import { below } from './folder-watches.ts';
import type { Glob } from './glob.ts';
import { isGone } from './remove-tree.ts';

/** A list that is cut without a word would be taken for the whole. */
const MOST_LISTED = 100_000;
const MOST_LOOKED_AT = 1_000_000;
const MOST_DEEP = 64;
/** Of the paths that are told: each may be as long as all names above it together. */
const MOST_BYTES = 64 * 1024 * 1024;

/** `top`: the folder, whose path the found ones are relative to. */
export async function listTree(files: Files, top: string, glob: Glob): Promise<FileEntry[]> {
  const found: FileEntry[] = [];
  let [lookedAt, bytes] = [0, 0];

  const look = async (path: string, depth: number): Promise<void> => {
    const listing = await files.list(below(top, path), MOST_LISTED + 1, MOST_BYTES);
    lookedAt += listing.files.length;
    if (listing.cut || lookedAt > MOST_LOOKED_AT) throw tooMany();
    const folders: string[] = [];
    for await (const { name, kind, size, modifiedAt } of inSlices(listing.files)) {
      const inner = below(path, name);
      if (kind === 'folder' && depth < MOST_DEEP && glob.reaches(inner)) folders.push(inner);
      if (!glob.matches(inner)) continue;
      bytes += inner.length;
      if (found.length >= MOST_LISTED || bytes > MOST_BYTES) throw tooMany();
      found.push({ path: inner, type: kind, bytes: size, modifiedAt });
    }
    for (const inner of folders) {
      await look(inner, depth + 1).catch((error) => {
        // Gone meanwhile, a link by now, or closed to the code: there is nothing to tell.
        if (error instanceof CellaError || !isSkipped(error)) throw error;
      });
    }
  };

  await look('', 0);
  return await sortedInSlices(found, (one, other) => (one.path < other.path ? -1 : 1));
}

function isSkipped(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return isGone(error) || code === 'ENOTDIR' || code === 'EXDEV' || code === 'ELOOP' || code === 'EACCES';
}

function tooMany(): CellaError {
  const advice = 'List a folder further down, or give a pattern that fits less.';
  return new CellaError(
    'TOO_LARGE',
    `There are more files than a list has: ${MOST_LISTED}, or ${MOST_BYTES} bytes of paths.`,
    { advice },
  );
}
