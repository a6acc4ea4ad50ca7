/** The memory of a started interpreter with the kernel loaded: made once, cached in the data folder, used by every worker. */

import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readKernelSources } from '../../interpreter/package-file.ts';
import { withTimeout } from '../../lib/deadline.ts';
import { MemoizedByKey } from '../../lib/single-flight.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { MemoryImageTask, WorkerMessage } from './shared-memory.ts';
import type { Pyodide } from './worker-client.ts';
import { startWorker, terminateWorker } from './worker-client.ts';

interface MemoryImageOptions {
  readonly pyodide: Pyodide;
  /** The kernel's sources. */
  readonly sources: string;
  readonly preload: readonly string[];
  readonly dataDir: string;
  readonly timeoutMs: number;
}

/** Shared by all data folders of this host. */
const knownImages = new MemoizedByKey<string, SharedArrayBuffer>();

/** Returns the cached image if it is complete; otherwise creates it and tries to cache it. */
export async function memoryImageFor(settings: MemoryImageOptions): Promise<SharedArrayBuffer> {
  const key = await imageKey(settings);
  return await knownImages.get(key, () => readOrMake(settings, key));
}

async function readOrMake(settings: MemoryImageOptions, key: string): Promise<SharedArrayBuffer> {
  const cache = new MemoryImageCache(settings.dataDir);
  const kept = await cache.take(key);
  if (kept) return toSharedBuffer(kept);
  const made = await makeImage(settings);
  // A full disk or a read-only folder only makes the next start slower.
  await cache.put(key, made).catch(() => {});
  return toSharedBuffer(made);
}

/** The same sources with the same Pyodide give the same image. */
async function imageKey({ pyodide, preload }: MemoryImageOptions): Promise<string> {
  const { hash: sources } = await readKernelSources();
  const all = createHash('sha256').update(JSON.stringify([pyodide.version, process.version, preload, sources]));
  return `${pyodide.version}-${all.digest('hex').slice(0, 24)}`;
}

function toSharedBuffer(body: Uint8Array): SharedArrayBuffer {
  const shared = new SharedArrayBuffer(body.length);
  new Uint8Array(shared).set(body);
  return shared;
}

async function makeImage({ pyodide, sources, preload, timeoutMs }: MemoryImageOptions): Promise<Uint8Array> {
  const { folder, lock, wasm } = pyodide;
  const task: MemoryImageTask = { kind: 'memory-image', pyodide: folder, lock, wasm, sources, preload };
  const worker = startWorker(task);
  const made = Promise.withResolvers<Uint8Array>();
  const failure = (why: string) => new CellaError('TEMPLATE_FAILED', `Pyodide could not be started: ${why}.`);
  const fail = (why: string) => made.reject(failure(why));
  worker.on('error', (error) => fail(error.message));
  worker.on('exit', () => fail('its worker ended'));
  worker.on('message', (message: WorkerMessage) => {
    if (message === null || 'exitCode' in message || 'line' in message) return;
    if ('problem' in message) return fail(message.problem);
    const [missing] = message.notPreloaded;
    if (!missing) return made.resolve(message.memoryImage);
    const problem = `preload: ${missing.name} could not be imported: ${missing.reason}.`;
    made.reject(new CellaError('INVALID_OPTIONS', problem));
  });
  try {
    return await withTimeout(made.promise, timeoutMs, () => failure(`it was not ready after ${timeoutMs / 1000} s`));
  } finally {
    await terminateWorker(worker);
  }
}

const FILE_MAGIC = Buffer.from('CELLASN1');
const HASH_BYTES = 32;
const FILE_ENDING = '.snapshot';
/** Hosts that preload different modules can share a data folder; each image takes about 30 MB. */
const MOST_KEPT = 4;

export class MemoryImageCache {
  readonly #folder: string;

  constructor(dataDir: string) {
    this.#folder = join(dataDir, 'cache', 'pyodide');
  }

  /** Undefined if there is no image, or if it is incomplete or was changed. */
  async take(key: string): Promise<Buffer | undefined> {
    const path = this.#path(key);
    const file = await readFile(path).catch(() => undefined);
    if (!file?.subarray(0, FILE_MAGIC.length).equals(FILE_MAGIC)) return undefined;
    const body = file.subarray(FILE_MAGIC.length + HASH_BYTES);
    if (!checksum(body).equals(file.subarray(FILE_MAGIC.length, FILE_MAGIC.length + HASH_BYTES))) return undefined;
    const now = new Date();
    // Nothing is removed from a read-only folder either.
    await utimes(path, now, now).catch(() => {});
    return body;
  }

  /** Atomic, even if another process writes the same image. */
  async put(key: string, body: Uint8Array): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const path = this.#path(key);
    const temporary = `${path}.${process.pid}.${performance.now()}`;
    try {
      await writeFile(temporary, [FILE_MAGIC, checksum(body), body], { mode: 0o600 });
      await rename(temporary, path);
    } finally {
      await rm(temporary, { force: true });
    }
    await this.#clear(path);
  }

  /** Removes the least recently used images. */
  async #clear(latest: string): Promise<void> {
    const others = (await readdir(this.#folder)).filter((name) => name.endsWith(FILE_ENDING));
    const used = await Promise.all(others.map((name) => lastUse(join(this.#folder, name))));
    const kept = used.filter(({ path }) => path !== latest).toSorted((one, other) => other.at - one.at);
    for (const { path } of kept.slice(MOST_KEPT - 1)) await rm(path, { force: true });
  }

  #path(key: string): string {
    return join(this.#folder, `${key}${FILE_ENDING}`);
  }
}

/** An image that another host has removed counts as the oldest. */
async function lastUse(path: string): Promise<{ path: string; at: number }> {
  const found = await stat(path).catch(() => undefined);
  return { path, at: found?.mtimeMs ?? 0 };
}

function checksum(body: Uint8Array): Buffer {
  return createHash('sha256').update(body).digest();
}
