/**
 * A folder of the session's home that is held open: what is done in it is done there, whatever code of the kernel puts
 * in the place of its name meanwhile. Linux gives every open folder a path, `/proc/self/fd/N`, that leads to the folder
 * itself. Environments hold folders in the same way, and also give what they make to its owner; an agent works as one
 * user, and imports nothing of theirs.
 */

import { constants, type FileHandle, mkdir, open } from 'node:fs/promises';

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

export interface HeldFolder extends AsyncDisposable {
  /** The path of what has that name in it. */
  readonly path: (name: string) => string;
}

/** The folder that the names lead to, each made where it is missing. A link on the way is an ELOOP or ENOTDIR. */
export async function holdFolder(root: string, names: readonly string[]): Promise<HeldFolder> {
  let at = await open(root, constants.O_RDONLY | constants.O_DIRECTORY);
  for (const name of names) {
    const above = at;
    try {
      await mkdir(pathIn(above, name)).catch(wellWhereThere);
      at = await open(pathIn(above, name), FOLDER);
    } finally {
      await above.close();
    }
  }
  return { path: (name) => pathIn(at, name), [Symbol.asyncDispose]: () => at.close() };
}

const pathIn = ({ fd }: FileHandle, name: string): string => `/proc/self/fd/${fd}/${name}`;

function wellWhereThere(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error;
}
