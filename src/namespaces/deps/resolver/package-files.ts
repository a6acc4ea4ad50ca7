/** Everything that the indexes and the folders of wheels have of one package. */

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { indexesOf, type PackageSource } from '../source.ts';
import { Failed } from './failed.ts';
import { type Fetcher, isReachable, shown } from './fetcher.ts';
import type { Limits } from './limits.ts';
import { type IndexFile, PAGE_TYPES, readPage } from './simple-page.ts';
import { type FileName, parseFileName } from './wheel-name.ts';

export type PackageFile = FileName & { readonly filename: string; readonly requiresPython: string | undefined } & (
    | { readonly from: 'index'; readonly file: IndexFile }
    | { readonly from: 'folder'; readonly path: string }
  );

const PYPI = 'https://pypi.org/simple/';

export class PackageFiles {
  readonly #source: PackageSource;
  readonly #fetcher: Fetcher;
  readonly #limits: Limits;
  readonly #known = new Map<string, Promise<PackageFile[]>>();

  constructor(source: PackageSource, fetcher: Fetcher, limits: Limits) {
    this.#source = source;
    this.#fetcher = fetcher;
    this.#limits = limits;
  }

  /** None where there is no such package. */
  of(name: string): Promise<PackageFile[]> {
    const known = this.#known.get(name) ?? this.#look(name);
    this.#known.set(name, known);
    return known;
  }

  /** For a message. */
  get where(): string {
    const indexes = this.#indexes().map(shown);
    return [...indexes, ...this.#source.wheelFolders].join(', ') || 'no place at all';
  }

  #indexes(): URL[] {
    if (this.#source.noIndex) return [];
    return this.#source.index === undefined ? [new URL(PYPI), ...indexesOf(this.#source)] : indexesOf(this.#source);
  }

  async #look(name: string): Promise<PackageFile[]> {
    const places = [
      ...this.#source.wheelFolders.map((folder) => inFolder(folder, name)),
      ...this.#indexes().map((index) => this.#onIndex(index, name)),
    ];
    return (await Promise.all(places)).flat();
  }

  async #onIndex(index: URL, name: string): Promise<PackageFile[]> {
    const base = index.pathname.endsWith('/') ? index : new URL(`${index.pathname}/`, index);
    const page = await this.#fetcher.whole(new URL(`${name}/`, base), PAGE_TYPES, this.#limits.pageBytes);
    if (!page) return [];
    const files = readPage(page.bytes.toString('utf8'), page.type, page.url);
    if (!files) throw new Failed(`the package index has no page of ${name} that can be read (${shown(page.url)})`);
    return files.flatMap((file) => {
      const parsed = parseFileName(file.filename, name);
      if (parsed?.name !== name || !isReachable(file.url, page.url)) return [];
      return { ...parsed, filename: file.filename, requiresPython: file.requiresPython, from: 'index', file } as const;
    });
  }
}

async function inFolder(folder: string, name: string): Promise<PackageFile[]> {
  const filenames = await readdir(folder).catch((error: Error) => {
    throw new Failed(`the folder of wheels cannot be read: ${error.message}`, 'all');
  });
  return filenames.flatMap((filename) => {
    const parsed = parseFileName(filename, name);
    if (parsed?.name !== name) return [];
    return { ...parsed, filename, requiresPython: undefined, from: 'folder', path: join(folder, filename) } as const;
  });
}
