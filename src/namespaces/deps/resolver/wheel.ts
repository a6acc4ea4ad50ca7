/** Wheels: downloaded once, checked against the index, read and unpacked. Their code never runs. */

import { createHash } from 'node:crypto';
import { chmod, mkdir, open, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { giveWay, inSlices } from '../../../lib/event-loop.ts';
import { entriesOf } from '../../../lib/large-folders.ts';
import { packageName } from '../../../protocol/requirement.ts';
import type { IndexClient } from './index-client.ts';
import type { PackageFile } from './package-index.ts';
import { compareVersions } from './pep440.ts';
import { type Metadata, parseMetadata } from './pep508.ts';
import { pureOnly } from './python-target.ts';
import { ResolutionError, type ResolverLimits } from './resolver-limits.ts';
import { contentOf, readContent, readDirectory, staysInside, type ZipEntry } from './zip.ts';

/** File names of native code, which a wheel may contain even if its name says otherwise. */
export const NATIVE = /\.(?:so(?:\.\d+)*|pyd|dylib)$/i;
const INFO = /^([^/]+)-([^/-]+)\.dist-info\/METADATA$/;
/** A larger file is a program and not a script. */
const LARGEST_SCRIPT = 1024 * 1024;
const DATA = /^[^/]+\.data\/([^/]+)\/(.+)$/;

export async function readWheelMetadata(
  path: string,
  limits: ResolverLimits,
): Promise<{ metadata: Metadata; text: string }> {
  await using file = await open(path);
  const entries = await readDirectory(file, limits);
  await giveWay();
  const found = entries.filter(({ path: at }) => INFO.test(at));
  const [entry] = found;
  if (!entry || found.length > 1) throw new ResolutionError('it has no name or version');
  const text = (await readContent(file, entry, limits.metadataBytes)).toString('utf8');
  const metadata = await parseMetadata(text);
  const [, name = ''] = INFO.exec(entry.path) ?? [];
  if (metadata?.name !== packageName(name)) throw new ResolutionError('it has no name or version');
  return { metadata, text };
}

interface Unpacking {
  readonly folder: string;
  /** Whether to refuse native code. */
  readonly pure: boolean;
  readonly limits: ResolverLimits;
  readonly signal: AbortSignal;
}

/** Returns how many bytes it has written. */
export async function unpackWheel(path: string, { folder, pure, limits, signal }: Unpacking): Promise<number> {
  await using file = await open(path);
  const files = (await readDirectory(file, limits)).filter(({ isFolder }) => !isFolder);
  await giveWay();
  const native = files.find(({ path: at }) => NATIVE.test(at));
  if (pure && native) throw new ResolutionError(`it has native code (${native.path}), ${pureOnly}`);
  const places: { readonly entry: ZipEntry; readonly to: string }[] = [];
  for await (const entry of inSlices(files)) {
    const to = installPath(entry.path);
    if (to !== undefined) places.push({ entry, to });
  }
  if (new Set(places.map(({ to }) => to)).size < places.length)
    throw new ResolutionError('two files in it have the same path');
  for (const { entry, to } of places) {
    signal.throwIfAborted();
    const target = join(folder, to);
    await mkdir(dirname(target), { recursive: true });
    const isScript = to !== entry.path && to.startsWith('bin/');
    await writeFile(
      target,
      isScript && entry.bytes <= LARGEST_SCRIPT ? await script(file, entry) : contentOf(file, entry),
    );
    if (entry.isExecutable || isScript) await chmod(target, 0o755);
  }
  return files.reduce((sum, { bytes }) => sum + bytes, 0);
}

/** The path of a file in the set, or undefined: headers are only for compilers. */
function installPath(path: string): string | undefined {
  const [, kind, rest = ''] = DATA.exec(path) ?? [];
  if (kind === undefined) return path;
  if (!staysInside(rest)) throw new ResolutionError(`${JSON.stringify(path)} in it leads out of its folder`);
  if (kind === 'purelib' || kind === 'platlib' || kind === 'data') return rest;
  return kind === 'scripts' ? `bin/${rest}` : undefined;
}

/** `#!python` is replaced, so that the script runs with the Python that finds it. */
async function script(file: Parameters<typeof contentOf>[0], entry: ZipEntry): Promise<Buffer> {
  const content = await readContent(file, entry, LARGEST_SCRIPT);
  const end = content.indexOf('\n');
  if (!/^#!pythonw?\s*$/.test(content.toString('latin1', 0, Math.min(end, 40)))) return content;
  return Buffer.concat([Buffer.from('#!/usr/bin/env python3'), content.subarray(end)]);
}

/** Wheels and their metadata, downloaded once and checked against what the index said. */
export class WheelCache {
  readonly #fetcher: IndexClient;
  readonly #limits: ResolverLimits;
  /** A folder for this process alone. */
  readonly #folder: string;
  readonly #progress: (text: string) => void;
  readonly #known = new Map<PackageFile, Promise<Metadata>>();
  /** The metadata from the index, to compare with the wheel's own. */
  readonly #indexMetadata = new Map<PackageFile, string>();
  readonly #paths = new Map<PackageFile, Promise<string>>();
  #count = 0;

  constructor(fetcher: IndexClient, limits: ResolverLimits, folder: string, progress: (text: string) => void) {
    this.#fetcher = fetcher;
    this.#limits = limits;
    this.#folder = folder;
    this.#progress = progress;
  }

  /** The metadata: from the index if it serves metadata separately, else from the wheel. */
  async metadata(file: PackageFile): Promise<Metadata> {
    return await once(this.#known, file, () => this.#read(file));
  }

  /** The path of the downloaded wheel, after checking it. */
  async path(file: PackageFile): Promise<string> {
    return await once(this.#paths, file, async () => {
      const path = await this.#download(file);
      const own = await withFileContext(file, () => readWheelMetadata(path, this.#limits));
      if ((this.#indexMetadata.get(file) ?? own.text) !== own.text)
        throw new ResolutionError(`${file.filename} differs from what the package index said`);
      checkNames(own.metadata, file);
      return path;
    });
  }

  async #read(file: PackageFile): Promise<Metadata> {
    const apart = file.from === 'index' ? await this.#metadataApart(file) : undefined;
    if (apart) return apart;
    const path = await this.path(file);
    return (await withFileContext(file, () => readWheelMetadata(path, this.#limits))).metadata;
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
    const metadata = await parseMetadata(text);
    if (!metadata) throw new ResolutionError(`the metadata of ${file.filename} cannot be read`);
    checkNames(metadata, file);
    this.#indexMetadata.set(file, text);
    return metadata;
  }

  async #download(file: PackageFile): Promise<string> {
    if (file.from === 'folder') return file.path;
    this.#progress(`Downloading ${file.filename}`);
    const fetched = await this.#fetcher.fetch(file.file.url, '*/*', this.#limits.wheelBytes);
    if (!fetched) throw new ResolutionError(`${file.filename} is on the package index, but cannot be fetched`);
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
  throw new ResolutionError(`${what} differs from what the package index said: its hash is different`);
}

function checkNames(metadata: Metadata, file: PackageFile): void {
  if (metadata.name === file.name && compareVersions(metadata.version, file.version) === 0) return;
  throw new ResolutionError(`${file.filename} says that it is another package, or another version`);
}

/** Adds the name of the wheel to an error. */
export async function withFileContext<T>(file: PackageFile, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ResolutionError)) throw error;
    throw new ResolutionError(
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

const LARGEST = 256 * 1024;
/** `name = module:function [extra]`. The pattern allows nothing that could be other code in the script. */
const ENTRY = /^([A-Za-z0-9_][A-Za-z0-9._-]{0,100})\s*=\s*([A-Za-z_][\w.]*)\s*:\s*([A-Za-z_][\w.]*)\s*(?:\[[^\]]*\])?$/;

/** Writes the scripts of all packages in this folder. Existing scripts stay. */
export async function writePrograms(folder: string): Promise<void> {
  // Listed first, because the scripts are put into the same folder.
  const infos: string[] = [];
  for await (const { name } of entriesOf(folder)) if (name.endsWith('.dist-info')) infos.push(name);
  for (const info of infos) {
    const text = await readSmall(join(folder, info, 'entry_points.txt'), LARGEST);
    for (const { name, module, attribute } of consoleScripts(text)) {
      const path = join(folder, 'bin', name);
      await mkdir(join(folder, 'bin'), { recursive: true });
      await writeFile(path, program(module, attribute), { flag: 'wx', mode: 0o755 }).catch((error) => {
        if (error.code !== 'EEXIST') throw error;
      });
    }
  }
}

export function consoleScripts(text: string): { name: string; module: string; attribute: string }[] {
  let section = '';
  return text.split(/\r?\n/).flatMap((line) => {
    section = /^\s*\[([^\]]*)\]\s*$/.exec(line)?.[1]?.trim() ?? section;
    const [, name, module, attribute] = section === 'console_scripts' ? (ENTRY.exec(line.trim()) ?? []) : [];
    return name === undefined || module === undefined || attribute === undefined ? [] : [{ name, module, attribute }];
  });
}

function program(module: string, attribute: string): string {
  const [first = ''] = attribute.split('.');
  return `#!/usr/bin/env python3\nimport sys\nfrom ${module} import ${first}\nsys.exit(${attribute}())\n`;
}

/** The text of a file, or empty if it is missing or too large. */
export async function readSmall(path: string, mostBytes: number): Promise<string> {
  const size = await stat(path).then(
    (stats) => stats.size,
    () => 0, // most packages have none
  );
  return size === 0 || size > mostBytes ? '' : await readFile(path, 'utf8').catch(() => '');
}
