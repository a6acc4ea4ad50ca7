/** Wheels and their metadata, fetched once and checked against what the index has said of them. */

import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Failed } from './failed.ts';
import type { Fetcher } from './fetcher.ts';
import type { Limits } from './limits.ts';
import { type Metadata, parseMetadata } from './metadata.ts';
import type { PackageFile } from './package-files.ts';
import { compareVersions } from './version.ts';
import { readWheelMetadata } from './wheel.ts';

export class WheelStore {
  readonly #fetcher: Fetcher;
  readonly #limits: Limits;
  /** Of this process alone. */
  readonly #folder: string;
  readonly #progress: (text: string) => void;
  readonly #known = new Map<PackageFile, Promise<Metadata>>();
  /** What the index has said of a wheel, to compare with what that says itself. */
  readonly #told = new Map<PackageFile, string>();
  readonly #paths = new Map<PackageFile, Promise<string>>();
  #count = 0;

  constructor(fetcher: Fetcher, limits: Limits, folder: string, progress: (text: string) => void) {
    this.#fetcher = fetcher;
    this.#limits = limits;
    this.#folder = folder;
    this.#progress = progress;
  }

  /** From the index where it gives it alone, else from the wheel. */
  async metadata(file: PackageFile): Promise<Metadata> {
    return await once(this.#known, file, () => this.#read(file));
  }

  /** Where the wheel lies, whole and as promised. */
  async path(file: PackageFile): Promise<string> {
    return await once(this.#paths, file, async () => {
      const path = await this.#download(file);
      const own = await saying(file, () => readWheelMetadata(path, this.#limits));
      if ((this.#told.get(file) ?? own.text) !== own.text)
        throw new Failed(`${file.filename} is not what the package index said of it`);
      checkNames(own.metadata, file);
      return path;
    });
  }

  async #read(file: PackageFile): Promise<Metadata> {
    const apart = file.from === 'index' ? await this.#metadataApart(file) : undefined;
    if (apart) return apart;
    const path = await this.path(file);
    return (await saying(file, () => readWheelMetadata(path, this.#limits))).metadata;
  }

  async #metadataApart(file: PackageFile & { from: 'index' }): Promise<Metadata | undefined> {
    const { url, metadata: offered } = file.file;
    if (!offered) return undefined;
    const address = new URL(url);
    address.pathname += '.metadata';
    const fetched = await this.#fetcher.whole(address, '*/*', this.#limits.metadataBytes);
    if (!fetched) return undefined;
    checkHash(
      offered.sha256,
      createHash('sha256').update(fetched.bytes).digest('hex'),
      `the metadata of ${file.filename}`,
    );
    const text = fetched.bytes.toString('utf8');
    const metadata = parseMetadata(text);
    if (!metadata) throw new Failed(`the metadata of ${file.filename} cannot be read`);
    checkNames(metadata, file);
    this.#told.set(file, text);
    return metadata;
  }

  async #download(file: PackageFile): Promise<string> {
    if (file.from === 'folder') return file.path;
    this.#progress(`Downloading ${file.filename}`);
    const fetched = await this.#fetcher.fetch(file.file.url, '*/*', this.#limits.wheelBytes);
    if (!fetched) throw new Failed(`${file.filename} is on the package index, but cannot be fetched`);
    this.#count += 1;
    const path = join(this.#folder, `${this.#count}.whl`);
    const hash = createHash('sha256');
    await writeFile(path, hashed(fetched.body, hash), { flag: 'wx', mode: 0o600 });
    checkHash(file.file.sha256, hash.digest('hex'), file.filename);
    return path;
  }
}

async function* hashed(body: AsyncIterable<Uint8Array>, hash: ReturnType<typeof createHash>) {
  for await (const part of body) {
    hash.update(part);
    yield part;
  }
}

function checkHash(wanted: string | undefined, found: string, what: string): void {
  if (wanted === undefined || wanted === found) return;
  throw new Failed(`${what} is not what the package index promised: its hash differs`);
}

function checkNames(metadata: Metadata, file: PackageFile): void {
  if (metadata.name === file.name && compareVersions(metadata.version, file.version) === 0) return;
  throw new Failed(`${file.filename} says that it is another package, or another version`);
}

/** What is wrong with a wheel is told with its name. */
export async function saying<T>(file: PackageFile, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    throw new Failed(
      `${file.name} ${file.versionText} cannot be taken: ${error.reason} (${file.filename})`,
      error.scope,
    );
  }
}

function once<K, T>(known: Map<K, Promise<T>>, key: K, make: () => Promise<T>): Promise<T> {
  const made = known.get(key) ?? make();
  known.set(key, made);
  return made;
}
