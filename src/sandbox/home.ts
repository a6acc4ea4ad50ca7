/** Files that come with the package, found from wherever this code lies: as source, as built, in the CLI's bundle. */

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

let found: URL | undefined;

/** The path of a file of the package, by its name from the package's root. */
export function packageFile(name: string): string {
  found ??= root();
  return fileURLToPath(new URL(name, found));
}

function root(): URL {
  let folder = new URL('./', import.meta.url);
  while (!existsSync(new URL('python/cella_kernel', folder))) {
    const above = new URL('../', folder);
    if (above.href === folder.href) throw new Error('This installation of Cella lacks its folder python/cella_kernel.');
    folder = above;
  }
  return folder;
}
