/** Tools and skills as plain files, `<folder>/NAME.yaml` and `NAME.py`, which users can edit, add and remove. */

import { createHash } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import { type FileHandle, link, lstat, rename, rm, unlink } from 'node:fs/promises';
import { giveWay } from '../../lib/event-loop.ts';
import { isStable, syncFolder, writePrivateFile } from '../../lib/private-file.ts';
import { systemCode } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import { checkName } from '../../protocol/namespace-models.ts';
import type { StoredText, TextStore } from '../contract.ts';
import { checkText, MOST_TEXT_BYTES } from '../validation.ts';
import { guarded } from './file-errors.ts';
import { FileCounter, listFiles, type NamedFile, openRegularFile, pathOfName, tooMany } from './regular-files.ts';
import type { StagingFolder } from './staging-folder.ts';

/** How many files to check at a time. */
const AT_ONCE = 64;
/** The most files: a list holds all of them in memory, with their texts. */
const MOST_FILES = 100_000;
/** The most characters of one text. */
const MOST_LISTED = 512 * 1024 * 1024;
/** A larger folder is not checked on each call, so changes by others appear a little later. */
const SMALL = 256;
/** A large folder is cached for this many times the duration of a check, up to the limit below. */
const TIMES = 20;
const LONGEST_KNOWN_MS = 2000;

interface TextFolderOptions {
  readonly folder: string;
  readonly staging: StagingFolder;
  /** For messages: "tool". */
  readonly what: string;
  readonly ending: string;
}

export class FileTexts implements TextStore {
  readonly #options: TextFolderOptions;
  readonly #stamps = new FileVersions();
  readonly #count: FileCounter;
  #known: { readonly version: string; readonly until: number } | undefined;
  #writes = 0;

  constructor(options: TextFolderOptions) {
    this.#options = options;
    this.#count = new FileCounter(options.folder);
  }

  /** Omits files that cannot be read; `get` throws the reason. */
  async list(): Promise<StoredText[]> {
    const texts: StoredText[] = [];
    let length = 0;
    for (const entry of await this.#entries()) {
      const text = await this.#read(entry).catch(() => undefined);
      if (!text) continue;
      texts.push(text);
      length += text.text.length;
      if (length > MOST_LISTED) throw tooMany(this.#options.folder, `more than ${MOST_LISTED / 2 ** 20} MB of texts`);
    }
    return texts;
  }

  async get(name: string): Promise<StoredText | undefined> {
    const { path, checked } = await this.#find(name);
    return this.#read({ name: checked, path });
  }

  async put(name: string, text: string, { ifAbsent = false }: { readonly ifAbsent?: boolean } = {}): Promise<boolean> {
    const { folder, staging, what } = this.#options;
    const { path, checked } = await this.#find(name);
    checkText(what, checked, text);
    return guarded('write', path, async () => {
      const unfinished = await staging.file();
      try {
        await writePrivateFile(unfinished, text);
        if (ifAbsent) await link(unfinished, path);
        else await rename(unfinished, path);
      } catch (error) {
        if (ifAbsent && systemCode(error) === 'EEXIST') return false;
        throw error;
      } finally {
        await rm(unfinished, { force: true });
      }
      this.#changed();
      this.#count.added();
      await syncFolder(folder);
      return true;
    });
  }

  async delete(name: string): Promise<boolean> {
    const { path } = await this.#find(name);
    return guarded('delete', path, async () => {
      try {
        await unlink(path);
      } catch (error) {
        if (systemCode(error) === 'ENOENT') return false;
        throw error;
      }
      this.#changed();
      await syncFolder(this.#options.folder);
      return true;
    });
  }

  holds(count: number): Promise<boolean> {
    return guarded('read', this.#options.folder, () => this.#count.holds(count));
  }

  /** Cached for a while for a large folder; writes of this process update it at once. */
  async version(): Promise<string> {
    const begun = performance.now();
    if (this.#known && begun < this.#known.until) return this.#known.version;
    const writes = this.#writes;
    const entries = await this.#entries();
    const hash = createHash('sha256');
    for (let at = 0; at < entries.length; at += AT_ONCE) {
      await giveWay();
      const some = entries.slice(at, at + AT_ONCE);
      const stamps = await Promise.all(some.map(({ path }) => this.#stamps.of(path).catch(() => 'unreadable')));
      for (const [index, { name }] of some.entries()) hash.update(`${JSON.stringify(name)} ${stamps[index]}\n`);
    }
    this.#stamps.forgetOthers(entries);
    const version = hash.digest('hex');
    const now = performance.now();
    const until = now + Math.min(LONGEST_KNOWN_MS, TIMES * (now - begun));
    this.#known = entries.length > SMALL && writes === this.#writes ? { version, until } : undefined;
    return version;
  }

  #changed(): void {
    this.#writes += 1;
    this.#known = undefined;
  }

  #entries(): Promise<NamedFile[]> {
    const { folder, ending } = this.#options;
    return guarded('read', folder, () => listFiles(folder, ending, { most: MOST_FILES }));
  }

  async #find(name: string): Promise<{ checked: string; path: string }> {
    const { folder, ending, what } = this.#options;
    const checked = checkName(name, what);
    return { checked, path: await guarded('read', folder, () => pathOfName(folder, checked, ending)) };
  }

  #read({ name, path }: NamedFile): Promise<StoredText | undefined> {
    return guarded('read', path, async () => {
      const file = await openRegularFile(path);
      if (!file) return undefined;
      try {
        const { size, mtimeMs } = await file.stat();
        if (size > MOST_TEXT_BYTES) {
          throw new CellaError(
            'STORAGE_FAILED',
            `Cannot read ${path}: it has ${size} bytes; the limit is ${MOST_TEXT_BYTES}.`,
          );
        }
        return { name, text: await file.readFile('utf8'), updatedAt: Math.trunc(mtimeMs), where: path };
      } finally {
        await file.close();
      }
    });
  }
}

/** Detects whether a file has changed. Two changes may fall into one tick of the file system's clock. */
export class FileVersions {
  readonly #known = new Map<string, { readonly facts: string; readonly stamp: string }>();

  /** Reads the file only if it changed within the last clock tick; else its times are enough. */
  async of(path: string): Promise<string> {
    const known = this.#known.get(path);
    if (known && known.facts === factsOf(await lstat(path, { bigint: true }))) return known.stamp;
    const file = await openRegularFile(path);
    try {
      return file ? await this.#stamp(path, file) : 'none';
    } finally {
      await file?.close();
    }
  }

  /** How many files it knows. */
  get size(): number {
    return this.#known.size;
  }

  /** Forgets the files that no longer exist. Code may create and delete any number of them. */
  forgetOthers(entries: readonly NamedFile[]): void {
    if (this.#known.size <= entries.length) return;
    const there = new Set(entries.map(({ path }) => path));
    for (const path of this.#known.keys()) if (!there.has(path)) this.#known.delete(path);
  }

  async #stamp(path: string, file: FileHandle): Promise<string> {
    const stats = await file.stat({ bigint: true });
    // A text that is too long is never read.
    if (stats.size > MOST_TEXT_BYTES) return factsOf(stats);
    const settled = isStable(stats);
    const content = createHash('sha256')
      .update(await file.readFile())
      .digest('hex');
    const stamp = `${stats.mtimeNs} ${content}`;
    if (settled) this.#known.set(path, { facts: factsOf(stats), stamp });
    return stamp;
  }
}

const factsOf = ({ ino, size, mtimeNs, ctimeNs }: BigIntStats): string => [ino, size, mtimeNs, ctimeNs].join(' ');
