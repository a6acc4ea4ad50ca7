/** The Python of an image: asked once in a throwaway container, kept in the data folder. */

import { createHash } from 'node:crypto';
import { readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { InterpreterTag, OLDEST_PYTHON, oldVersion, parseJson, probeProgram } from '../../interpreter/find-python.ts';
import { type KernelSources, readKernelSources } from '../../interpreter/package-file.ts';
import { MemoizedByKey } from '../../lib/single-flight.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Interpreter } from '../../protocol/interpreter.ts';
import { addCompiled, publish, removeUnused, stageSources } from './compiled-kernel.ts';
import { imageUnusable, type RunResult, runThrowaway, type ThrowawayRun } from './container.ts';
import { closedVolumes } from './container-spec.ts';
import { ask, type Engine } from './engine.ts';
import { DEFAULT_IMAGE, splitName } from './image-names.ts';

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

const InspectedImage = z.object({
  Id: z.string().regex(/^(sha256:)?[0-9a-f]{64}$/),
  Config: z.object({ Volumes: z.record(z.string(), z.unknown()).nullish() }).nullish(),
});
const KeptFacts = z.object({
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

const knownImages = new MemoizedByKey<string, ImageFacts>();
/** Folders that containers of this process may have before them. */
const usedCopies = new Set<string>();

/** Removes copies for images or versions of Cella that are not used any more. No other process may use the folder. */
export async function forgetUnused(dataDir: string): Promise<void> {
  await removeUnused(cacheIn(dataDir), usedCopies);
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
  return await knownImages.get(key, () => findFacts(engine, found, name ?? DEFAULT_IMAGE, dataDir, options));
}

type FoundImage = Pick<ImageFacts, 'id' | 'volumes'>;

/** Of the default image without a name. A name that `cella images build` was given stands for what it made of it. */
export async function findImage(engine: Engine, name?: string, signal?: AbortSignal): Promise<FoundImage> {
  const image = name ?? DEFAULT_IMAGE;
  if (!isReference(image))
    throw new CellaError('INVALID_OPTIONS', `image: ${JSON.stringify(image)} is no image's name.`);
  const look = async (called: string): Promise<FoundImage> => {
    const inspect = () => engine.docker.getImage(called).inspect();
    const { Id: id, Config } = await ask(engine, 'looking at the image', InspectedImage, inspect, { image, signal });
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

async function findFacts(
  engine: Engine,
  found: FoundImage,
  name: string,
  dataDir: string,
  options: ImageOptions,
): Promise<ImageFacts> {
  const { id, volumes } = found;
  const sources = await readKernelSources();
  const parent = cacheIn(dataDir);
  const key = createHash('sha256')
    .update(JSON.stringify([FORMAT, id, sources.hash]))
    .digest('hex');
  const place = join(parent, key.slice(0, 32));
  usedCopies.add(place);
  const kept = await readKeptFacts(place);
  if (kept) return { ...found, ...kept, kernel: join(place, 'kernel') };
  let staged: string | undefined;
  try {
    staged = await stageSources(parent, sources);
    const { labels = {}, timeoutMs = ANSWER_MS, signal } = options;
    const kernel = join(staged, 'kernel');
    const answer = await probeImage(engine, { image: id, name, kernel, volumes, labels, timeoutMs, signal });
    const facts = await keepFacts(staged, sources, answer);
    await publish(staged, place);
    return { ...found, ...facts, kernel: join(place, 'kernel') };
  } catch (error) {
    if (staged !== undefined) await rm(staged, { recursive: true, force: true });
    throw error instanceof CellaError || options.signal?.aborted ? error : notKept(place, error);
  }
}

async function keepFacts(
  staged: string,
  sources: KernelSources,
  answer: ImageProbeAnswer,
): Promise<z.output<typeof KeptFacts>> {
  await addCompiled(staged, sources, answer);
  const { version, executable: python, path, tag, machine, libc } = answer;
  const platforms = wheelPlatforms(machine, libc);
  const facts: z.output<typeof KeptFacts> = {
    python,
    version,
    path,
    interpreter: { tag, version: [version[0], version[1]], patch: version[2], platforms },
  };
  await writeFile(join(staged, FACTS), JSON.stringify(facts), { mode: 0o644 });
  return facts;
}

/** Undefined where there is nothing, or nothing whole; that is taken away. */
async function readKeptFacts(place: string): Promise<z.output<typeof KeptFacts> | undefined> {
  const text = await readFile(join(place, FACTS), 'utf8').catch(() => undefined);
  // Another process may put a complete one there at any time, so only what was read counts as broken.
  if (text === undefined) return undefined;
  const kept = KeptFacts.safeParse(parseJson(text)).data;
  if (!kept) await rm(place, { recursive: true, force: true });
  else await utimes(place, new Date(), new Date()).catch(() => {}); // it only seems to be used less than it is
  return kept;
}

/** As engines take it: a name, perhaps with a registry, a tag or a digest, or an id. */
function isReference(image: string): boolean {
  return /^[A-Za-z0-9][\w.:@/-]{0,500}$/.test(image) && !image.includes('..') && !image.includes('//');
}

function notKept(place: string, cause: unknown): CellaError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new CellaError('STORAGE_FAILED', `What an image says of itself cannot be kept in ${place}: ${why}.`, {
    cause,
  });
}

export interface ImageProbe extends Pick<ThrowawayRun, 'image' | 'name' | 'labels' | 'timeoutMs' | 'signal'> {
  /** A folder with the kernel's sources. */
  readonly kernel: string;
  /** Where the image wants to have volumes. */
  readonly volumes: readonly string[];
}

export const LibC = z.object({ name: z.enum(['glibc', 'musl']), version: z.tuple([z.int(), z.int().max(999)]) });

/** The image may have written anything. */
const ProbeAnswer = z.object({
  version: z.tuple([z.int(), z.int(), z.int()]),
  executable: z.string().startsWith('/').max(4096),
  tag: InterpreterTag,
  machine: z.string().regex(/^[A-Za-z0-9_]{1,32}$/),
  libc: LibC,
  path: z.string().max(8192),
  /** `frames.py`: its compiled code, and where that belongs. */
  compiled: z.record(z.string(), z.object({ at: z.string(), code: z.base64() })),
});

export type ImageProbeAnswer = z.output<typeof ProbeAnswer>;

const KERNEL_INSIDE = '/cella/kernel';

export async function probeImage(engine: Engine, question: ImageProbe): Promise<ImageProbeAnswer> {
  const { kernel, volumes, ...about } = question;
  const ask = async (python: string): Promise<RunResult> =>
    await runThrowaway(engine, {
      ...about,
      argv: [python, '-I', '-S', '-B', '-c', probeProgram(), KERNEL_INSIDE],
      as: 'nobody',
      mounts: [
        { Type: 'bind', Source: kernel, Target: KERNEL_INSIDE, ReadOnly: true },
        ...closedVolumes(engine, volumes, [KERNEL_INSIDE]),
      ],
    });
  const first = await ask('python3');
  if (first.kind === 'ended') return readAnswer(question.name, first);
  const second = await ask('python');
  if (second.kind === 'ended') return readAnswer(question.name, second);
  // The first may be there, and for another machine.
  throw imageUnusable(question.name, `it has no Python that runs: ${first.reason}; ${second.reason}`);
}

function readAnswer(name: string, { output, errors }: Extract<RunResult, { kind: 'ended' }>): ImageProbeAnswer {
  const line = output.split('\n').find((each) => each.startsWith(ANSWER_MARKER));
  const told = parseJson(line?.slice(ANSWER_MARKER.length) ?? '');
  const version = oldVersion(told);
  if (version) {
    throw imageUnusable(name, `its Python is ${version.join('.')}, and ${OLDEST_PYTHON} or later is needed`);
  }
  const answer = ProbeAnswer.safeParse(told);
  if (answer.success) return answer.data;
  const words = [errors, output].map((text) => text.trim().split('\n').at(-1)).find(Boolean);
  const said = words ? `: ${JSON.stringify(words.slice(0, 300))}` : '';
  throw imageUnusable(name, `its Python does not answer as one does${said}`);
}

/** The line that begins with it is the answer; the image may write other lines. python/cella_probe.py has it, too. */
const ANSWER_MARKER = 'cella-image:';

/** Names from before the version of glibc was part of them. */
const LEGACY_NAMES: Readonly<Record<number, string>> = { 17: 'manylinux2014', 12: 'manylinux2010', 5: 'manylinux1' };
/** Where the first standard for manylinux stood, by machine. */
const OLDEST_GLIBC: Readonly<Record<string, number>> = { x86_64: 5, i686: 5 };
const OLDEST_GLIBC_ELSEWHERE = 17;

/** Best first. */
export function wheelPlatforms(machine: string, libc: z.output<typeof LibC>): string[] {
  return [...(libc.name === 'musl' ? musl(machine, libc) : glibc(machine, libc)), `linux_${machine}`];
}

function glibc(machine: string, { version: [major, minor] }: z.output<typeof LibC>): string[] {
  const oldest = OLDEST_GLIBC[machine] ?? OLDEST_GLIBC_ELSEWHERE;
  // No wheel names another major version, and what one would mean is not known.
  if (major !== 2 || minor < oldest) return [];
  return countDown(minor, oldest).flatMap((each) => {
    const legacy = LEGACY_NAMES[each];
    return [`manylinux_2_${each}_${machine}`, ...(legacy === undefined ? [] : [`${legacy}_${machine}`])];
  });
}

function musl(machine: string, { version: [major, minor] }: z.output<typeof LibC>): string[] {
  return countDown(minor, 0).map((each) => `musllinux_${major}_${each}_${machine}`);
}

function countDown(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, from - to + 1) }, (_, index) => from - index);
}
