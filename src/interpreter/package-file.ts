/** Finds files of the installed package, whether this code runs from source, from dist or from the CLI's bundle. */

import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

let packageRoot: URL | undefined;

/** The path of a packaged file, by its name relative to the package's root. */
export function packageFile(name: string): string {
  packageRoot ??= findPackageRoot();
  return fileURLToPath(new URL(name, packageRoot));
}

/** The version of Cella. */
export function packageVersion(): string {
  const manifest: { version: string } = JSON.parse(readFileSync(packageFile('package.json'), 'utf8'));
  return manifest.version;
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

/** The folder of the kernel's Python package. */
export function kernelPackage(): string {
  return packageFile('python/cella_kernel');
}

export interface KernelSources {
  /** A hash of the file names and their text. */
  readonly hash: string;
  readonly files: ReadonlyMap<string, Buffer>;
}

export async function readKernelSources(): Promise<KernelSources> {
  const root = kernelPackage();
  const names = (await readdir(root, { recursive: true })).filter((name) => name.endsWith('.py')).sort();
  const hash = createHash('sha256');
  const files = new Map<string, Buffer>();
  for (const name of names) {
    const text = await readFile(join(root, name));
    files.set(name, text);
    hash.update(`${name}\0${text.length}\0`).update(text);
  }
  return { hash: hash.digest('hex'), files };
}
