/**
 * The Python of an image: probed once in a throwaway container. The data folder caches the answer, with a copy of the kernel's
 * sources and the code that the image's Python compiled from them.
 */

import { createHash, randomUUID } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { InterpreterTag, OLDEST_PYTHON, oldVersion, probeProgram } from '../../interpreter/find-python.ts';
import { type KernelSources, readKernelSources } from '../../interpreter/package-file.ts';
import { tryParseJson } from '../../lib/json-scanner.ts';
import { MemoizedByKey } from '../../lib/single-flight.ts';
import { messageOf, systemCode } from '../../lib/values.ts';
import type { Interpreter } from '../../protocol/environment-spec.ts';
import { CellaError } from '../../protocol/errors.ts';
import { imageUnusable, type RunResult, runThrowaway, type ThrowawayRun } from './container.ts';
import { closedVolumes } from './container-spec.ts';
import { askEngine, DEFAULT_IMAGE, type Engine, splitName } from './engine.ts';

interface ImageFacts {
  /** For example `sha256:…`. A name can mean another image later. */
  readonly id: string;
  /** Path in the image. */
  readonly python: string;
  readonly version: readonly [major: number, minor: number, patch: number];
  /** The search path for programs in the image. */
  readonly path: string;
  /** The image's `VOLUME` paths. */
  readonly volumes: readonly string[];
  readonly interpreter: Interpreter;
  /** The folder on the host with the kernel's code, compiled for this Python. */
  readonly kernel: string;
}

interface ImageOptions {
  /** Labels for the probing container, so that the next process can find it if this one is killed. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

const ANSWER_MS = 30_000;
const FACTS = 'facts.json';
/** Format version of the cached folder. */
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
/** Folders that containers of this process may have mounted. */
const usedCopies = new Set<string>();

/** Removes copies for images or versions of Cella that are no longer used. No other process may use the folder. */
export async function forgetUnused(dataDir: string): Promise<void> {
  await removeUnused(cacheIn(dataDir), usedCopies);
}

const cacheIn = (dataDir: string): string => join(dataDir, 'cache', 'kernel');

/** Without a name, uses the default image. Probes each image once and caches the answer in the data folder. */
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

/** Without a name, finds the default image. Also accepts a name as given to `cella images build`. */
export async function findImage(engine: Engine, name?: string, signal?: AbortSignal): Promise<FoundImage> {
  const image = name ?? DEFAULT_IMAGE;
  if (!isReference(image))
    throw new CellaError('INVALID_OPTIONS', `image: ${JSON.stringify(image)} is no image's name.`);
  const resolve = async (called: string): Promise<FoundImage> => {
    const inspect = () => engine.docker.getImage(called).inspect();
    const { Id: id, Config } = await askEngine(engine, 'inspecting the image', InspectedImage, inspect, {
      image,
      signal,
    });
    return { id, volumes: Object.keys(Config?.Volumes ?? {}) };
  };
  return await resolve(image).catch((error: unknown) => {
    const missing = error instanceof CellaError && error.code === 'IMAGE_NOT_FOUND';
    const own = splitName(image);
    const named = own && `${own.repo}:${own.tag}`;
    if (!missing || named === undefined || named === image) throw error;
    return resolve(named);
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
  const folder = join(parent, key.slice(0, 32));
  usedCopies.add(folder);
  const kept = await readKeptFacts(folder);
  if (kept) return { ...found, ...kept, kernel: join(folder, 'kernel') };
  let staged: string | undefined;
  try {
    staged = await stageSources(parent, sources);
    const { labels = {}, timeoutMs = ANSWER_MS, signal } = options;
    const kernel = join(staged, 'kernel');
    const answer = await probeImage(engine, { image: id, name, kernel, volumes, labels, timeoutMs, signal });
    const facts = await keepFacts(staged, sources, answer);
    await publish(staged, folder);
    return { ...found, ...facts, kernel: join(folder, 'kernel') };
  } catch (error) {
    if (staged !== undefined) await rm(staged, { recursive: true, force: true });
    throw error instanceof CellaError || options.signal?.aborted ? error : notKept(folder, error);
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

/** Undefined if nothing is cached. Removes a broken entry. */
async function readKeptFacts(folder: string): Promise<z.output<typeof KeptFacts> | undefined> {
  const text = await readFile(join(folder, FACTS), 'utf8').catch(() => undefined);
  // Another process may write a complete entry at any time, so only content that was read counts as broken.
  if (text === undefined) return undefined;
  const kept = KeptFacts.safeParse(tryParseJson(text)).data;
  if (!kept) await rm(folder, { recursive: true, force: true });
  else await utimes(folder, new Date(), new Date()).catch(() => {}); // otherwise it just looks less recently used
  return kept;
}

/** An image reference as engines accept it: a name, optionally with a registry, a tag or a digest; or an id. */
function isReference(image: string): boolean {
  return /^[A-Za-z0-9][\w.:@/-]{0,500}$/.test(image) && !image.includes('..') && !image.includes('//');
}

function notKept(folder: string, cause: unknown): CellaError {
  const why = messageOf(cause);
  return new CellaError('STORAGE_FAILED', `The facts about an image cannot be stored in ${folder}: ${why}.`, {
    cause,
  });
}

interface ImageProbe extends Pick<ThrowawayRun, 'image' | 'name' | 'labels' | 'timeoutMs' | 'signal'> {
  /** A folder with the kernel's sources. */
  readonly kernel: string;
  /** The image's `VOLUME` paths. */
  readonly volumes: readonly string[];
}

const LibC = z.object({ name: z.enum(['glibc', 'musl']), version: z.tuple([z.int(), z.int().max(999)]) });

/** The image may print anything. */
const ProbeAnswer = z.object({
  version: z.tuple([z.int(), z.int(), z.int()]),
  executable: z.string().startsWith('/').max(4096),
  tag: InterpreterTag,
  machine: z.string().regex(/^[A-Za-z0-9_]{1,32}$/),
  libc: LibC,
  path: z.string().max(8192),
  /** Maps a source such as `frames.py` to its compiled code and the path where that belongs. */
  compiled: z.record(z.string(), z.object({ at: z.string(), code: z.base64() })),
});

type ImageProbeAnswer = z.output<typeof ProbeAnswer>;

const KERNEL_INSIDE = '/cella/kernel';

async function probeImage(engine: Engine, question: ImageProbe): Promise<ImageProbeAnswer> {
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
  // The first Python may exist, but for another machine.
  throw imageUnusable(question.name, `it has no working Python: ${first.reason}; ${second.reason}`);
}

/** `name` is the image name to show to users. */
export function readAnswer(name: string, { output, errors }: Extract<RunResult, { kind: 'ended' }>): ImageProbeAnswer {
  const line = output.split('\n').find((each) => each.startsWith(ANSWER_MARKER));
  const value = tryParseJson(line?.slice(ANSWER_MARKER.length) ?? '');
  const version = oldVersion(value);
  if (version) {
    throw imageUnusable(name, `its Python is ${version.join('.')}, but ${OLDEST_PYTHON} or later is needed`);
  }
  const answer = ProbeAnswer.safeParse(value);
  if (answer.success) return answer.data;
  const words = [errors, output].map((text) => text.trim().split('\n').at(-1)).find(Boolean);
  const said = words ? `: ${JSON.stringify(words.slice(0, 300))}` : '';
  throw imageUnusable(name, `its Python gave an invalid answer${said}`);
}

/** Starts the line with the answer, because the image may print other lines. Also defined in python/cella_probe.py. */
const ANSWER_MARKER = 'cella-image:';

/** Names from before they included the glibc version. */
const LEGACY_NAMES: Readonly<Record<number, string>> = { 17: 'manylinux2014', 12: 'manylinux2010', 5: 'manylinux1' };
/** The glibc minor version of the first manylinux standard, by machine. */
const OLDEST_GLIBC: Readonly<Record<string, number>> = { x86_64: 5, i686: 5 };
const OLDEST_GLIBC_ELSEWHERE = 17;

/** Best match first. */
export function wheelPlatforms(machine: string, libc: z.output<typeof LibC>): string[] {
  return [...(libc.name === 'musl' ? musl(machine, libc) : glibc(machine, libc)), `linux_${machine}`];
}

function glibc(machine: string, { version: [major, minor] }: z.output<typeof LibC>): string[] {
  const oldest = OLDEST_GLIBC[machine] ?? OLDEST_GLIBC_ELSEWHERE;
  // No wheel tag names another major version of glibc, so what one would mean is unknown.
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

const STAGING_PREFIX = '.new-';
/** A staging folder older than this belongs to a process that has ended. */
const ABANDONED_AFTER_MS = 3_600_000;
/** A copy unused for this long is removed. It can be made again. */
const UNUSED_AFTER_MS = 30 * 24 * 3_600_000;

/** Creates a staging folder below `parent` with the sources in `kernel`, readable for all users. */
async function stageSources(parent: string, { files }: KernelSources): Promise<string> {
  await mkdir(parent, { recursive: true, mode: 0o700 });
  await removeAbandoned(parent);
  const staged = join(parent, `${STAGING_PREFIX}${randomUUID()}`);
  for (const [name, text] of files) await put(join(staged, 'kernel', name), text);
  await openFolders(staged);
  return staged;
}

/** Accepts compiled code only for Cella's own sources, and only at the paths where Python looks for it. */
async function addCompiled(staged: string, { files }: KernelSources, { compiled }: ImageProbeAnswer): Promise<void> {
  for (const [name, { at, code }] of Object.entries(compiled)) {
    const module = /^(?:.*\/)?([A-Za-z0-9_]+)\.py$/.exec(name)?.[1];
    const expected = new RegExp(`^__pycache__/${module}\\.[A-Za-z0-9_-]+\\.pyc$`);
    const within = dirname(name) === '.' ? at : at.slice(dirname(name).length + 1);
    if (!files.has(name) || module === undefined || join(dirname(name), within) !== at || !expected.test(within)) {
      throw new CellaError('IMAGE_UNUSABLE', `Its Python compiled ${name} to ${at}, which is not a valid path.`);
    }
    await put(join(staged, 'kernel', at), Buffer.from(code, 'base64'));
  }
  await openFolders(staged);
}

/** Another process may publish first; the copies are equivalent. */
async function publish(staged: string, folder: string): Promise<void> {
  try {
    await rename(staged, folder);
  } catch (error) {
    await rm(staged, { recursive: true, force: true });
    const code = systemCode(error);
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
  }
}

async function put(path: string, data: Buffer): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, data, { mode: 0o644 });
  await chmod(path, 0o644);
  // The same in every copy.
  await utimes(path, 0, 0);
}

/** Files and folders were created under this process's umask. */
async function openFolders(root: string): Promise<void> {
  await chmod(root, 0o755);
  const inside = await readdir(root, { recursive: true, withFileTypes: true });
  for (const entry of inside) {
    if (entry.isDirectory()) await chmod(join(entry.parentPath, entry.name), 0o755);
  }
}

/** Removes copies below `parent` that have not been used for long, except those that are in use. */
export async function removeUnused(parent: string, inUse: ReadonlySet<string>): Promise<void> {
  for (const name of await readdir(parent).catch(() => [])) {
    const path = join(parent, name);
    const facts = inUse.has(path) ? undefined : await stat(path).catch(() => undefined); // removed in the meantime
    if (facts && Date.now() - facts.mtimeMs > UNUSED_AFTER_MS) await rm(path, { recursive: true, force: true });
  }
}

async function removeAbandoned(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (!name.startsWith(STAGING_PREFIX)) continue;
    const path = join(parent, name);
    const made = await stat(path).catch(() => undefined); // another process replaced it in the meantime
    if (made && Date.now() - made.mtimeMs > ABANDONED_AFTER_MS) await rm(path, { recursive: true, force: true });
  }
}
