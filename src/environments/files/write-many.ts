/** Writes many files at once, each whole or not at all, and tells of each how it went. */

import type { Files } from './files.ts';
import { explained, partsOf, refused } from './path.ts';
import { replaceFile } from './replace-file.ts';

export interface Written {
  readonly path: string;
  readonly content: Uint8Array;
}

const AT_ONCE = 16;

/** In the order of the files: undefined where it was written, else why not. Of two with one path the later one stays. */
export async function writeMany(files: Files, contents: readonly Written[]): Promise<(Error | undefined)[]> {
  const results = new Array<Error | undefined>(contents.length).fill(undefined);
  const fail = (index: number, path: string, error: unknown) => {
    const told = explained(path, error);
    results[index] = told instanceof Error ? told : new Error(String(told));
  };
  const last = new Map<string, { index: number; path: string; content: Uint8Array }>();
  for (const [index, { path, content }] of contents.entries()) {
    try {
      const parts = partsOf(path);
      if (parts.length === 0) throw refused(path, 'it is the folder itself');
      last.set(parts.join('/'), { index, path, content });
    } catch (error) {
      fail(index, path, error);
    }
  }
  await eachAtOnce(last, async ([at, { index, path, content }]) => {
    await replaceFile(files, at, { chunks: [content] }).catch((error) => fail(index, path, error));
  });
  return results;
}

async function eachAtOnce<T>(items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  const left = items[Symbol.iterator]();
  const worker = async () => {
    for (let next = left.next(); !next.done; next = left.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
