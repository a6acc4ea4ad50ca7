/** Writes many files at once, each whole or not at all, and tells of each how it went. */

import { HeldFolder } from './held-folder.ts';
import { explained, partsOf, refused } from './path.ts';
import { replaceFile } from './replace-file.ts';

export interface Written {
  readonly path: string;
  readonly content: Uint8Array;
}

interface Placed extends Written {
  readonly name: string;
  readonly index: number;
}

const AT_ONCE = 16;

/** In the order of the files: undefined where it was written, else why not. Of two with one path the later one stays. */
export async function writeMany(root: string, files: readonly Written[]): Promise<(Error | undefined)[]> {
  const results = new Array<Error | undefined>(files.length).fill(undefined);
  const fail = (index: number, path: string, error: unknown) => {
    const told = explained(path, error);
    results[index] = told instanceof Error ? told : new Error(String(told));
  };
  const folders = new Map<string, { parts: string[]; files: Map<string, Placed> }>();
  for (const [index, { path, content }] of files.entries()) {
    try {
      const parts = partsOf(path);
      const name = parts.pop();
      if (name === undefined) throw refused(path, 'it is the folder itself');
      const key = parts.join('/');
      const folder = folders.get(key) ?? { parts, files: new Map() };
      folders.set(key, folder);
      folder.files.set(name, { path, content, name, index });
    } catch (error) {
      fail(index, path, error);
    }
  }
  await using top = await HeldFolder.root(root);
  for (const { parts, files: inIt } of folders.values()) {
    try {
      await using folder = await top.walk(parts, { create: true });
      await eachAtOnce(inIt.values(), async ({ name, path, content, index }) => {
        try {
          await replaceFile(folder, name, { path, chunks: [content] });
        } catch (error) {
          fail(index, path, error);
        }
      });
    } catch (error) {
      for (const { index, path } of inIt.values()) fail(index, path, error);
    }
  }
  return results;
}

async function eachAtOnce<T>(items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  const left = items[Symbol.iterator]();
  const worker = async () => {
    for (let next = left.next(); !next.done; next = left.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
