/** All files of one package in the indexes and wheel folders. */

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { giveWay, inSlices } from '../../../lib/event-loop.ts';
import { packageName } from '../../../protocol/requirement.ts';
import { readToolJson } from '../../tools/tool-output.ts';
import { indexesOf, type PackageSource } from '../package-source.ts';
import { displayUrl, type IndexClient, isReachable } from './index-client.ts';
import { parseVersion, type Version } from './pep440.ts';
import { ResolutionError, type ResolverLimits } from './resolver-limits.ts';

export type PackageFile = FileName & { readonly filename: string; readonly requiresPython: string | undefined } & (
    | { readonly from: 'index'; readonly file: IndexFile }
    | { readonly from: 'folder'; readonly path: string }
  );

const PYPI = 'https://pypi.org/simple/';

export class PackageIndex {
  readonly #source: PackageSource;
  readonly #fetcher: IndexClient;
  readonly #limits: ResolverLimits;
  readonly #known = new Map<string, Promise<PackageFile[]>>();

  constructor(source: PackageSource, fetcher: IndexClient, limits: ResolverLimits) {
    this.#source = source;
    this.#fetcher = fetcher;
    this.#limits = limits;
  }

  /** Empty if there is no such package. */
  of(name: string): Promise<PackageFile[]> {
    const known = this.#known.get(name) ?? this.#look(name);
    this.#known.set(name, known);
    return known;
  }

  /** Where it was searched, for messages. */
  get where(): string {
    const indexes = this.#indexes().map(displayUrl);
    return [...indexes, ...this.#source.wheelFolders].join(', ') || 'no source';
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
    const files = await parseIndexPage(page.bytes.toString('utf8'), page.type, page.url);
    if (!files)
      throw new ResolutionError(`the package index has no readable page for ${name} (${displayUrl(page.url)})`);
    const found: PackageFile[] = [];
    for await (const file of inSlices(files)) {
      const { filename, requiresPython } = file;
      const parsed = parseFileName(filename, name);
      if (parsed?.name !== name || !isReachable(file.url, page.url)) continue;
      found.push({ ...parsed, filename, requiresPython, from: 'index', file });
    }
    return found;
  }
}

async function inFolder(folder: string, name: string): Promise<PackageFile[]> {
  const filenames = await readdir(folder).catch((error: Error) => {
    throw new ResolutionError(`the folder of wheels cannot be read: ${error.message}`, 'all');
  });
  const found: PackageFile[] = [];
  for await (const filename of inSlices(filenames)) {
    const parsed = parseFileName(filename, name);
    if (parsed?.name !== name) continue;
    found.push({ ...parsed, filename, requiresPython: undefined, from: 'folder', path: join(folder, filename) });
  }
  return found;
}

interface IndexFile {
  readonly filename: string;
  readonly url: URL;
  readonly sha256: string | undefined;
  readonly requiresPython: string | undefined;
  /** Whether its publisher has withdrawn it. */
  readonly yanked: boolean;
  /** Whether its metadata can be fetched separately, and the hash of the metadata. */
  readonly metadata: { readonly sha256: string | undefined } | undefined;
}

const PAGE_TYPES = 'application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1';

const Hashes = z.record(z.string(), z.string());
const ListedFile = z.object({
  filename: z.string(),
  url: z.string(),
  hashes: Hashes.optional(),
  'requires-python': z.string().nullish(),
  yanked: z.union([z.boolean(), z.string()]).optional(),
  'core-metadata': z.union([z.boolean(), Hashes]).optional(),
  'dist-info-metadata': z.union([z.boolean(), Hashes]).optional(),
});
const IndexPage = z.object({ files: z.array(z.unknown()) });

/**
 * The files of a page, or undefined if it is not such a page. In slices: a package with tens of thousands of files has a page
 * of many megabytes.
 */
export async function parseIndexPage(text: string, type: string, base: URL): Promise<IndexFile[] | undefined> {
  return type.includes('json') ? await parseJsonPage(text, base) : await parseHtmlPage(text, base);
}

async function parseJsonPage(text: string, base: URL): Promise<IndexFile[] | undefined> {
  const page = IndexPage.safeParse(await readToolJson(text).catch(() => undefined)).data;
  if (!page) return undefined;
  const files: IndexFile[] = [];
  for await (const listed of inSlices(page.files)) {
    const file = ListedFile.safeParse(listed).data;
    if (!file) return undefined;
    const url = urlOf(file.url, base);
    const metadata = file['core-metadata'] ?? file['dist-info-metadata'] ?? false;
    if (!url) continue;
    files.push({
      filename: file.filename,
      url,
      sha256: sha256Of(file.hashes?.sha256),
      requiresPython: file['requires-python'] ?? undefined,
      yanked: file.yanked !== undefined && file.yanked !== false,
      metadata: metadata === false ? undefined : { sha256: sha256Of(metadata === true ? undefined : metadata.sha256) },
    });
  }
  return files;
}

async function parseHtmlPage(text: string, base: URL): Promise<IndexFile[]> {
  const files: IndexFile[] = [];
  for await (const { url, text: filename, attributes } of linksIn(text, base)) {
    const metadata = attributes.get('data-core-metadata') ?? attributes.get('data-dist-info-metadata');
    const requiresPython = attributes.get('data-requires-python');
    const bare = new URL(url);
    bare.hash = '';
    files.push({
      filename,
      url: bare,
      sha256: sha256Of(/(?:^#|&)sha256=(\w+)/.exec(url.hash)?.[1]),
      requiresPython: requiresPython === '' ? undefined : requiresPython,
      yanked: attributes.has('data-yanked'),
      metadata:
        metadata === undefined || metadata === 'false'
          ? undefined
          : { sha256: sha256Of(/^sha256=(\w+)$/.exec(metadata)?.[1]) },
    });
  }
  return files;
}

/** Does not check the hash: no file matches an invalid one. */
function sha256Of(text: string | undefined): string | undefined {
  return text?.toLowerCase();
}

function urlOf(text: string, base: URL): URL | undefined {
  const url = URL.canParse(text, base.href) ? new URL(text, base) : undefined;
  if (url) url.hash = '';
  return url;
}

interface HtmlLink {
  readonly url: URL;
  readonly text: string;
  readonly attributes: ReadonlyMap<string, string>;
}

/** A > in quotes does not end a tag. All parts are bounded, so that no page causes backtracking. */
const TAG = /<(a|base)(\s(?:[^"'<>]|"[^"]{0,4096}"|'[^']{0,4096}'){0,8192})>([^<]{0,1024})/iy;
/** How many places that may begin a tag are looked at in one step. */
const STEP = 1000;
const ATTRIBUTE = /([a-z-]+)(?:\s{0,8}=\s{0,8}(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?/gi;
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

async function* linksIn(html: string, address: URL): AsyncGenerator<HtmlLink> {
  let base = address;
  let looked = 0;
  for (let at = html.indexOf('<'); at >= 0; at = html.indexOf('<', at)) {
    if (++looked % STEP === 0) await giveWay();
    TAG.lastIndex = at;
    const [whole = '<', tag, rest = '', text = ''] = TAG.exec(html) ?? [];
    at += whole.length;
    const attributes = attributesIn(rest);
    const href = attributes.get('href');
    if (href === undefined || !URL.canParse(href, base.href)) continue;
    const url = new URL(href, base);
    if (tag?.toLowerCase() === 'base') base = url;
    else yield { url, text: decodeEntities(text).trim(), attributes };
  }
}

function attributesIn(text: string): Map<string, string> {
  const found = text.matchAll(ATTRIBUTE);
  return new Map(
    Iterator.from(found).map(([, name = '', double, single, bare]) => [
      name.toLowerCase(),
      decodeEntities(double ?? single ?? bare ?? ''),
    ]),
  );
}

function decodeEntities(text: string): string {
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z]+));/gi, (whole, hex, decimal, name) => {
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
    if (name !== undefined) return ENTITIES[name.toLowerCase()] ?? whole;
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}

interface FileName {
  /** The normalized name of the package. */
  readonly name: string;
  /** As written. */
  readonly versionText: string;
  readonly version: Version;
  /** Undefined for a source package. */
  readonly wheel: { readonly tags: readonly string[]; readonly build: number } | undefined;
}

/** File names from an index are plain ASCII. Others are ignored, and never shown. */
const PLAIN = /^[\x21-\x7e]{1,255}$/;
/** Wheels for several Pythons and systems have a few dozen. */
const MOST_TAGS = 1000;
const SOURCE = /\.(?:tar\.gz|zip|tar\.bz2|tgz)$/;

/** Undefined for other files. For sources, `name` is needed, as the file name does not show where the name ends. */
export function parseFileName(text: string, name: string): FileName | undefined {
  if (!PLAIN.test(text)) return undefined;
  return text.endsWith('.whl') ? parseWheel(text.slice(0, -4)) : parseSource(text, name);
}

function parseWheel(text: string): FileName | undefined {
  const parts = text.split('-');
  if (parts.length !== 5 && parts.length !== 6) return undefined;
  const [written = '', versionText = ''] = parts;
  const [pythons = '', abis = '', platforms = ''] = parts.slice(-3).map((part) => part.toLowerCase());
  const version = parseVersion(versionText.replaceAll('_', '-'));
  if (!version || !/^[A-Za-z0-9._]+$/.test(written)) return undefined;
  const [someOf, abisOf, platformsOf] = [pythons.split('.'), abis.split('.'), platforms.split('.')];
  if (someOf.length * abisOf.length * platformsOf.length > MOST_TAGS) return undefined;
  const tags = someOf.flatMap((python) =>
    abisOf.flatMap((abi) => platformsOf.map((platform) => `${python}-${abi}-${platform}`)),
  );
  const build = parts.length === 6 ? Number.parseInt(parts[2] ?? '', 10) : -1;
  return Number.isNaN(build) ? undefined : { name: packageName(written), versionText, version, wheel: { tags, build } };
}

function parseSource(text: string, name: string): FileName | undefined {
  if (!SOURCE.test(text)) return undefined;
  const bare = text.replace(SOURCE, '');
  const [written, versionText] = /^(.+)-([^-]+)$/.exec(bare)?.slice(1) ?? [];
  const version = versionText === undefined ? undefined : parseVersion(versionText);
  if (written === undefined || versionText === undefined || !version || packageName(written) !== name) return undefined;
  return { name, versionText, version, wheel: undefined };
}
