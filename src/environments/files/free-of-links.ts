/**
 * Finds where a path leads by links that the system does not follow beneath a folder: absolute ones that stay inside.
 *
 * Code makes links as it likes: 40 of them can have 80,000 names. So the names that one request looks at are counted.
 */

import { readlink } from 'node:fs/promises';
import type { HeldFolder } from './held-folder.ts';
import { errorOf } from './path.ts';

/** Links in a row, as for the system itself. */
const MOST_LINKS = 40;
const MOST_NAMES = 4096;

/** What one request may still look at. */
export class NamesLeft {
  #left = MOST_NAMES;

  /** Of a path, the next one last. */
  take(path: string): string[] {
    const names = path.split('/').reverse();
    this.#left -= names.length;
    if (this.#left < 0) throw errorOf('ELOOP');
    return names;
  }
}

/** Each step begins at the root; what somebody changes meanwhile is noticed when the path is opened. */
export async function freeOfLinks(root: HeldFolder, path: string, inside: string, names: NamesLeft): Promise<string> {
  const left = names.take(path);
  let done: string[] = [];
  let links = 0;
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    if (name === '' || name === '.') continue;
    if (name === '..') {
      if (done.pop() === undefined) throw errorOf('EXDEV');
      continue;
    }
    const target = await readlink(root.path([...done, name].join('/'))).catch(() => undefined); // no link, or nothing
    if (target === undefined) {
      done.push(name);
      continue;
    }
    if (++links > MOST_LINKS) throw errorOf('ELOOP');
    if (target.startsWith('/')) {
      if (target !== inside && !target.startsWith(`${inside}/`)) throw errorOf('EXDEV');
      done = [];
    }
    left.push(...names.take(target.startsWith('/') ? target.slice(inside.length) : target));
  }
  return done.join('/');
}
