/** Finds files of the installed package, whether this code runs from source, from dist or from the CLI's bundle. */

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

let packageRoot: URL | undefined;

/** The path of a file of the package, by its name from the package's root. */
export function packageFile(name: string): string {
  packageRoot ??= findPackageRoot();
  return fileURLToPath(new URL(name, packageRoot));
}

function findPackageRoot(): URL {
  let folder = new URL('../sandbox/', import.meta.url);
  while (!existsSync(new URL('python/cella_kernel', folder))) {
    const above = new URL('../', folder);
    if (above.href === folder.href) throw new Error('This installation of Cella lacks its folder python/cella_kernel.');
    folder = above;
  }
  return folder;
}
