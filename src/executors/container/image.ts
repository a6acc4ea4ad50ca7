/** What kernels must know of an image: its Python, the packages that fit it, and the kernel compiled for it. */

import { createHash } from 'node:crypto';
import { readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { parseJson } from '../../interpreter/find-python.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Interpreter } from '../../protocol/interpreter.ts';
import { askImage, type ImageAnswer } from './ask-image.ts';
import { DEFAULT_IMAGE, splitName } from './default-image.ts';
import { ask, type Engine } from './engine.ts';
import { addCompiled, readSources, removeUnused, type Sources, settle, stageSources } from './kernel-copy.ts';
import { wheelPlatforms } from './wheel-platforms.ts';

export interface ImageFacts {
  /** `sha256:…`; a name may mean another image at another time. */
  readonly id: string;
  /** Its path inside. */
  readonly python: string;
  readonly version: readonly [major: number, minor: number, patch: number];
  /** Where programs are looked up inside. */
  readonly path: string;
  /** Where it wants to have volumes. */
  readonly volumes: readonly string[];
  readonly interpreter: Interpreter;
  /** A folder of the host with the kernel's code, compiled for this Python. */
  readonly kernel: string;
}

export interface ImageOptions {
  /** On the container that asks it, by which what a killed process leaves behind is found. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

const ANSWER_MS = 30_000;
const FACTS = 'facts.json';
/** Of what lies in the folder. */
const FORMAT = 2;

const Inspected = z.object({
  Id: z.string().regex(/^(sha256:)?[0-9a-f]{64}$/),
  Config: z.object({ Volumes: z.record(z.string(), z.unknown()).nullish() }).nullish(),
});
const Kept = z.object({
  python: z.string().startsWith('/'),
  version: z.tuple([z.int(), z.int(), z.int()]),
  path: z.string(),
  interpreter: z.object({
    tag: z.string(),
    version: z.tuple([z.int(), z.int()]),
    patch: z.int(),
    platforms: z.array(z.string()),
  }),
});

const known = new Map<string, Promise<ImageFacts>>();
/** Folders that containers of this process may have before them. */
const used = new Set<string>();

/** Removes what no image or no Cella of today has use for. Nobody else may be about to use it. */
export async function forgetUnused(dataDir: string): Promise<void> {
  await removeUnused(cacheIn(dataDir), used);
}

const cacheIn = (dataDir: string): string => join(dataDir, 'cache', 'kernel');

/** Without a name, of the default image. An image is asked once; what it said is kept in the data folder. */
export async function imageFacts(
  engine: Engine,
  name: string | undefined,
  dataDir: string,
  options: ImageOptions = {},
): Promise<ImageFacts> {
  const found = await findImage(engine, name, options.signal);
  const key = JSON.stringify([engine.address, found.id, dataDir]);
  const asked = known.get(key) ?? factsOf(engine, found, name ?? DEFAULT_IMAGE, dataDir, options);
  known.set(key, asked);
  // The reader may mend it.
  asked.catch(() => known.delete(key));
  return await asked;
}

type Found = Pick<ImageFacts, 'id' | 'volumes'>;

/** Of the default image without a name. A name that `cella image build` was given stands for what it made of it. */
export async function findImage(engine: Engine, name?: string, signal?: AbortSignal): Promise<Found> {
  const image = name ?? DEFAULT_IMAGE;
  if (!isReference(image))
    throw new CellaError('INVALID_OPTIONS', `image: ${JSON.stringify(image)} is no image's name.`);
  const look = async (called: string): Promise<Found> => {
    const inspect = () => engine.docker.getImage(called).inspect();
    const { Id: id, Config } = await ask(engine, 'looking at the image', Inspected, inspect, { image, signal });
    return { id, volumes: Object.keys(Config?.Volumes ?? {}) };
  };
  return await look(image).catch((error: unknown) => {
    const missing = error instanceof CellaError && error.code === 'IMAGE_NOT_FOUND';
    const own = splitName(image);
    const named = own && `${own.repo}:${own.tag}`;
    if (!missing || named === undefined || named === image) throw error;
    return look(named);
  });
}

async function factsOf(
  engine: Engine,
  found: Found,
  name: string,
  dataDir: string,
  options: ImageOptions,
): Promise<ImageFacts> {
  const { id, volumes } = found;
  const sources = await readSources();
  const parent = cacheIn(dataDir);
  const key = createHash('sha256')
    .update(JSON.stringify([FORMAT, id, sources.hash]))
    .digest('hex');
  const place = join(parent, key.slice(0, 32));
  used.add(place);
  const kept = await readKept(place);
  if (kept) return { ...found, ...kept, kernel: join(place, 'kernel') };
  let staged: string | undefined;
  try {
    staged = await stageSources(parent, sources);
    const { labels = {}, timeoutMs = ANSWER_MS, signal } = options;
    const kernel = join(staged, 'kernel');
    const answer = await askImage(engine, { image: id, name, kernel, volumes, labels, timeoutMs, signal });
    const facts = await keep(staged, sources, answer);
    await settle(staged, place);
    return { ...found, ...facts, kernel: join(place, 'kernel') };
  } catch (error) {
    if (staged !== undefined) await rm(staged, { recursive: true, force: true });
    throw error instanceof CellaError || options.signal?.aborted ? error : unkept(place, error);
  }
}

async function keep(staged: string, sources: Sources, answer: ImageAnswer): Promise<z.output<typeof Kept>> {
  await addCompiled(staged, sources, answer);
  const { version, executable: python, path, tag, machine, libc } = answer;
  const platforms = wheelPlatforms(machine, libc);
  const facts: z.output<typeof Kept> = {
    python,
    version,
    path,
    interpreter: { tag, version: [version[0], version[1]], patch: version[2], platforms },
  };
  await writeFile(join(staged, FACTS), JSON.stringify(facts), { mode: 0o644 });
  return facts;
}

/** Undefined where there is nothing, or nothing whole; that is taken away. */
async function readKept(place: string): Promise<z.output<typeof Kept> | undefined> {
  const text = await readFile(join(place, FACTS), 'utf8').catch(() => undefined);
  // Another process may put a whole one there at any time, so that only what was read can be told to be broken.
  if (text === undefined) return undefined;
  const kept = Kept.safeParse(parseJson(text)).data;
  if (!kept) await rm(place, { recursive: true, force: true });
  else await utimes(place, new Date(), new Date()).catch(() => {}); // it only seems to be used less than it is
  return kept;
}

/** As engines take it: a name, perhaps with a registry, a tag or a digest, or an id. */
function isReference(image: string): boolean {
  return /^[A-Za-z0-9][\w.:@/-]{0,500}$/.test(image) && !image.includes('..') && !image.includes('//');
}

function unkept(place: string, cause: unknown): CellaError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new CellaError('STORAGE_FAILED', `What an image says of itself cannot be kept in ${place}: ${why}.`, {
    cause,
  });
}
