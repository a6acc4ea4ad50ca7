/** The memory of an interpreter with the kernel in it: made once, kept in the data folder, and begun with by every worker. */

import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CellaError } from '../../protocol/errors.ts';
import type { SnapshotOrder, Word } from './inside/orders.ts';
import { startWorker } from './lodging.ts';
import type { Pyodide } from './pyodide.ts';
import { Shelf } from './shelf.ts';

export interface SnapshotSettings {
  readonly pyodide: Pyodide;
  /** The kernel's sources. */
  readonly sources: string;
  readonly preload: readonly string[];
  readonly dataDir: string;
  readonly timeoutMs: number;
}

/** Of this host: the same for every data folder. */
const known = new Map<string, Promise<SharedArrayBuffer>>();

/** From the data folder where there is a whole one; else it is made, and kept there if that can be done. */
export async function snapshotFor(settings: SnapshotSettings): Promise<SharedArrayBuffer> {
  const key = await keyOf(settings);
  const found = known.get(key) ?? obtain(settings, key);
  known.set(key, found);
  // Whoever asks next tries again.
  found.catch(() => known.delete(key));
  return await found;
}

async function obtain(settings: SnapshotSettings, key: string): Promise<SharedArrayBuffer> {
  const shelf = new Shelf(settings.dataDir);
  const kept = await shelf.take(key);
  if (kept) return share(kept);
  const made = await make(settings);
  // A full disk or a folder that cannot be written to costs time at the next start, and nothing else.
  await shelf.put(key, made).catch(() => {});
  return share(made);
}

/** The same sources of the same Pyodide give the same snapshot. */
async function keyOf({ pyodide, sources, preload }: SnapshotSettings): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify([pyodide.version, process.version, preload]));
  const names = (await readdir(sources, { recursive: true })).filter((name) => name.endsWith('.py')).sort();
  const texts = await Promise.all(names.map((name) => readFile(join(sources, name))));
  for (const [index, text] of texts.entries()) hash.update(`${names[index]}\0${text.length}\0`).update(text);
  return `${pyodide.version}-${hash.digest('hex').slice(0, 24)}`;
}

function share(body: Uint8Array): SharedArrayBuffer {
  const shared = new SharedArrayBuffer(body.length);
  new Uint8Array(shared).set(body);
  return shared;
}

async function make({ pyodide, sources, preload, timeoutMs }: SnapshotSettings): Promise<Uint8Array> {
  const { folder, lock, wasm } = pyodide;
  const order: SnapshotOrder = { kind: 'snapshot', pyodide: folder, lock, wasm, sources, preload };
  const worker = startWorker(order);
  const made = Promise.withResolvers<Uint8Array>();
  const fail = (why: string) => made.reject(new CellaError('TEMPLATE_FAILED', `Pyodide could not be started: ${why}.`));
  const timer = setTimeout(() => fail(`it was not ready after ${timeoutMs / 1000} s`), timeoutMs);
  worker.on('error', (error) => fail(error.message));
  worker.on('exit', () => fail('its worker ended'));
  worker.on('message', (word: Word) => {
    if (word === null || 'exitCode' in word || 'line' in word) return;
    if ('problem' in word) return fail(word.problem);
    const [missing] = word.notPreloaded;
    if (!missing) return made.resolve(word.snapshot);
    const words = `preload: ${missing.name} could not be imported: ${missing.reason}.`;
    made.reject(new CellaError('INVALID_OPTIONS', words));
  });
  try {
    return await made.promise;
  } finally {
    clearTimeout(timer);
    await worker.terminate();
  }
}
