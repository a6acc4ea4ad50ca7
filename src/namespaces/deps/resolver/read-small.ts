/** Reads a text that a package has brought, which may be of any size. */

import { readFile, stat } from 'node:fs/promises';

/** Empty where there is none, or one that is larger than what belongs there ever is. */
export async function readSmall(path: string, mostBytes: number): Promise<string> {
  const size = await stat(path).then(
    (stats) => stats.size,
    () => 0, // most packages have none
  );
  return size === 0 || size > mostBytes ? '' : await readFile(path, 'utf8').catch(() => '');
}
