/** The snapshots in a data folder: each for what it was made of, and no more of them than were used last. */

import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const MAGIC = Buffer.from('CELLASN1');
const HASH_BYTES = 32;
const ENDING = '.snapshot';
/** Hosts that preload other modules share a data folder; each snapshot takes about 30 MB. */
const MOST_KEPT = 4;

export class Shelf {
  readonly #folder: string;

  constructor(dataDir: string) {
    this.#folder = join(dataDir, 'cache', 'pyodide');
  }

  /** undefined where there is none, or one that was not written to its end or has been changed since. */
  async take(key: string): Promise<Buffer | undefined> {
    const path = this.#path(key);
    const file = await readFile(path).catch(() => undefined);
    if (!file?.subarray(0, MAGIC.length).equals(MAGIC)) return undefined;
    const body = file.subarray(MAGIC.length + HASH_BYTES);
    if (!checksum(body).equals(file.subarray(MAGIC.length, MAGIC.length + HASH_BYTES))) return undefined;
    const now = new Date();
    // In a folder that cannot be written to nothing is removed either.
    await utimes(path, now, now).catch(() => {});
    return body;
  }

  /** Whole or not at all, whoever else writes the same one. */
  async put(key: string, body: Uint8Array): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const path = this.#path(key);
    const temporary = `${path}.${process.pid}.${performance.now()}`;
    try {
      await writeFile(temporary, [MAGIC, checksum(body), body], { mode: 0o600 });
      await rename(temporary, path);
    } finally {
      await rm(temporary, { force: true });
    }
    await this.#clear(path);
  }

  /** Those that nobody has used for the longest time go: of other versions, most of all. */
  async #clear(latest: string): Promise<void> {
    const others = (await readdir(this.#folder)).filter((name) => name.endsWith(ENDING));
    const used = await Promise.all(others.map((name) => lastUse(join(this.#folder, name))));
    const kept = used.filter(({ path }) => path !== latest).toSorted((one, other) => other.at - one.at);
    for (const { path } of kept.slice(MOST_KEPT - 1)) await rm(path, { force: true });
  }

  #path(key: string): string {
    return join(this.#folder, `${key}${ENDING}`);
  }
}

/** One that another host has removed meanwhile counts as the oldest. */
async function lastUse(path: string): Promise<{ path: string; at: number }> {
  const found = await stat(path).catch(() => undefined);
  return { path, at: found?.mtimeMs ?? 0 };
}

function checksum(body: Uint8Array): Buffer {
  return createHash('sha256').update(body).digest();
}
