/** Holds files and folders that are being written or removed. Each has the name of the process that does this. */

import { mkdir, readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { removeOwnTree } from '../../lib/large-folders.ts';
import { makePrivateFolder } from '../../lib/private-file.ts';
import { systemCode } from '../../lib/values.ts';
import type { ProcessLiveness } from './process-liveness.ts';

export class StagingFolder {
  readonly folder: string;
  readonly #liveness: ProcessLiveness;
  #count = 0;

  constructor(folder: string, liveness: ProcessLiveness) {
    this.folder = folder;
    this.#liveness = liveness;
  }

  /** A folder that is swept once this process has ended. */
  async make(): Promise<string> {
    const path = this.#name();
    this.#liveness.check();
    await makePrivateFolder(this.folder);
    await mkdir(path, { mode: 0o700 });
    return path;
  }

  /** The path of a file that is swept once this process has ended. The caller creates and removes the file. */
  async file(): Promise<string> {
    const path = this.#name();
    this.#liveness.check();
    await makePrivateFolder(this.folder);
    return path;
  }

  /** Renames a folder out of the way at once, then removes it. False if it does not exist. */
  async discard(path: string): Promise<boolean> {
    this.#liveness.check();
    await makePrivateFolder(this.folder);
    const discarded = this.#name();
    try {
      await rename(path, discarded);
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return false;
      throw error;
    }
    await removeOwnTree(discarded);
    return true;
  }

  /** Removes files of processes that have ended. If that fails, the next sweep tries again. */
  async sweep(): Promise<void> {
    for (const name of await readdir(this.folder).catch(() => [])) {
      const [owner = ''] = name.split('.');
      if (this.#liveness.isAlive(owner)) continue;
      await removeOwnTree(join(this.folder, name)).catch(() => {});
    }
  }

  #name(): string {
    this.#count += 1;
    return join(this.folder, `${this.#liveness.ownId}.${this.#count}`);
  }
}
