/** Builds images from the host's Python or from a base image; lists and deletes images that Cella built. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { PassThrough, type Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { probePython } from '../../interpreter/find-python.ts';
import { kernelPackage } from '../../interpreter/package-file.ts';
import { answerFromProcess } from '../../lib/deadline.ts';
import { tryParseJson } from '../../lib/json-scanner.ts';
import { CellaError } from '../../protocol/errors.ts';
import { labelsOf, runThrowaway } from './container.ts';
import { askEngine, callEngine, DEFAULT_IMAGE, type Engine, splitName } from './engine.ts';
import { findImage, imageFacts } from './image-python.ts';

/** Set on every image that Cella builds. */
const IMAGE_LABEL = 'cella.image';
/** The version of Cella that built the image. */
const VERSION_LABEL = 'cella.version';
/** The image's Python version, for people who list images. */
const PYTHON_LABEL = 'cella.python';

export interface BuiltImage {
  readonly name: string;
  readonly id: string;
  /** For example `3.11.2`. */
  readonly python: string;
  readonly bytes: number;
  /** Libraries that something in the image needs and this machine lacks. */
  readonly missing: readonly string[];
}

/** What an engine reports about a created image. */
const CreatedImage = z.object({ Id: z.string(), Size: z.number() });

/** As Dockerfile instructions. Podman accepts one label per line. */
function labelsOfImage(version: string, python: string): string[] {
  return [`LABEL ${IMAGE_LABEL}=1`, `LABEL ${VERSION_LABEL}=${version}`, `LABEL ${PYTHON_LABEL}=${python}`];
}

interface BuildOptions {
  /** Path of a Python on this machine. */
  readonly python: string;
  readonly name?: string | undefined;
  /** Programs to include in addition to the common ones, by name or path. */
  readonly programs?: readonly string[];
  /** Whether to include the packages installed for this Python. */
  readonly packages?: boolean;
  /** The version of Cella. */
  readonly version: string;
  readonly onProgress?: (text: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/** How long the packer may inspect a Python with all its packages. */
const INSPECT_TIMEOUT_MS = 10 * 60_000;
/** Gives up on an engine that makes no progress for this long. */
const IMPORT_TIMEOUT_MS = 30 * 60_000;

const ImportLine = z.object({ status: z.string().optional(), error: z.string().optional() });

export async function buildImage(engine: Engine, options: BuildOptions): Promise<BuiltImage> {
  const { repo, tag } = parseImageName(options.name);
  const { onProgress = () => {}, programs = [], packages = true } = options;
  await probePython(options.python);
  const stop = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
  onProgress(`Inspecting ${options.python} and its dependencies`);
  const { pid, archive, facts } = packPython({ python: options.python, programs, packages, onProgress, signal });
  const silent = (why: string) => {
    stop.abort();
    return new CellaError('CONTAINER_FAILED', `${options.python} could not be packed: ${why}.`);
  };
  try {
    const found = await answerFromProcess(facts, { pid, timeoutMs: INSPECT_TIMEOUT_MS }, silent);
    onProgress(`Packing ${found.files} files, ${(found.bytes / 1_000_000).toFixed(0)} MB`);
    const changes = imageChanges(found, options.version);
    const send = async (abortSignal: AbortSignal) => {
      const request = engine.docker.importImage(archive, { changes, abortSignal });
      // If the archive ends early, its error is the cause, not the engine's response to it.
      const broken = new Promise<never>((_, reject) => archive.once('error', reject));
      return await Promise.race([request.then((answer) => text(answer)), broken]);
    };
    const importing = callEngine(engine, 'importing the image', send, { timeoutMs: IMPORT_TIMEOUT_MS, signal });
    const answer = await answerFromProcess(importing, { pid, timeoutMs: 2 * IMPORT_TIMEOUT_MS }, silent);
    const image = engine.docker.getImage(idIn(answer));
    // Podman's import accepts no tag.
    await callEngine(engine, 'naming the image', () => image.tag({ repo, tag }));
    const name = `${repo}:${tag}`;
    const { Id: id, Size: bytes } = await askEngine(engine, 'inspecting the image', CreatedImage, () =>
      image.inspect(),
    );
    return { name, id, python: found.version, bytes, missing: found.missing };
  } finally {
    stop.abort();
  }
}

function parseImageName(name: string | undefined): { repo: string; tag: string } {
  const parts = splitName(name ?? DEFAULT_IMAGE);
  if (parts) return parts;
  const hint = 'lower case letters, digits and . _ - /, with a tag after a colon if needed';
  throw new CellaError('INVALID_OPTIONS', `${JSON.stringify(name)} is not a valid image name: ${hint}.`);
}

function imageChanges({ version, path }: PackedPython, cella: string): string[] {
  return [
    `ENV PATH=${path}`,
    'ENV LANG=C.UTF-8',
    'USER 1000:1000',
    'WORKDIR /home/cella',
    'CMD ["python3"]',
    ...labelsOfImage(cella, version),
  ];
}

/** The answer has one JSON object per line, the last with the id. An error can follow a successful start. */
function idIn(answer: string): string {
  const lines = answer.split('\n').flatMap((line) => ImportLine.safeParse(tryParseJson(line)).data ?? []);
  const problem = lines.find((line) => line.error !== undefined)?.error;
  const id = lines.findLast((line) => line.status !== undefined)?.status;
  if (problem === undefined && id !== undefined && /^(sha256:)?[0-9a-f]{64}$/.test(id)) return id;
  const why = problem ?? 'it did not return the new image';
  throw new CellaError('CONTAINER_FAILED', `The container engine failed at importing the image: ${why}.`);
}

interface BaseOptions {
  readonly name?: string | undefined;
  /** The version of Cella. */
  readonly version: string;
  /** The folder that caches the facts about the base image. */
  readonly dataDir: string;
  /** The identity of this process. If it is killed, the next process removes what it left behind. */
  readonly owner: string;
  readonly onProgress?: (text: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/** Files that do not compile are harmless, because no code can import them. Existing compiled code stays as it is. */
const COMPILE = `
import compileall, os, re, sys, sysconfig
folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
for folder in sorted(filter(os.path.isdir, folders)):
    compileall.compile_dir(folder, quiet=2, rx=re.compile(r"/(test|tests|lib2to3)/"))
`;
const COMPILE_TIMEOUT_MS = 10 * 60_000;
const COMMIT_TIMEOUT_MS = 5 * 60_000;

const argvSchema = z.union([z.array(z.string()), z.string(), z.null()]).optional();
const BaseConfig = z.object({
  Config: z.object({
    User: z.string().default(''),
    WorkingDir: z.string().default(''),
    Entrypoint: argvSchema,
    Cmd: argvSchema,
  }),
});

/** The base image must be on this machine: Cella pulls nothing. */
export async function buildFromBase(engine: Engine, base: string, options: BaseOptions): Promise<BuiltImage> {
  const { repo, tag } = parseImageName(options.name);
  const { onProgress = () => {}, signal, version, dataDir, owner } = options;
  onProgress(`Inspecting ${base}`);
  await mkdir(dataDir, { recursive: true });
  const labels = labelsOf(dataDir, owner);
  const facts = await imageFacts(engine, base, dataDir, { signal, labels });
  const inspect = () => engine.docker.getImage(facts.id).inspect();
  const { Config: config } = await askEngine(engine, 'inspecting the image', BaseConfig, inspect, {
    image: base,
    signal,
  });
  const python = facts.version.join('.');
  const changes = [
    `USER ${config.User || '0:0'}`,
    `WORKDIR ${config.WorkingDir || '/'}`,
    `ENTRYPOINT ${JSON.stringify(toArgv(config.Entrypoint))}`,
    `CMD ${JSON.stringify(toArgv(config.Cmd))}`,
    ...labelsOfImage(version, python),
    // Clears the labels of the build container, so that Cella does not treat containers of this image as its own.
    ...Object.keys(labels).map((label) => `LABEL ${label}=""`),
  ];
  onProgress(`Compiling the library of its Python ${python}`);
  await runThrowaway(engine, {
    image: facts.id,
    name: base,
    argv: [facts.python, '-I', '-c', COMPILE],
    as: 'root',
    labels,
    timeoutMs: COMPILE_TIMEOUT_MS,
    signal,
    finished: async (container) => {
      onProgress(`Saving it as ${repo}:${tag}`);
      const commit = () => container.commit({ repo, tag, changes, pause: false });
      await callEngine(engine, 'keeping the image', commit, { timeoutMs: COMMIT_TIMEOUT_MS, signal });
    },
  });
  const name = `${repo}:${tag}`;
  const find = () => engine.docker.getImage(name).inspect();
  const made = await askEngine(engine, 'inspecting the image', CreatedImage, find, { image: name });
  return { name, id: made.Id, python, bytes: made.Size, missing: [] };
}

function toArgv(value: z.output<typeof argvSchema>): string[] {
  return typeof value === 'string' ? [value] : (value ?? []);
}

interface PackOptions {
  /** Path of a Python on this machine. */
  readonly python: string;
  /** Programs to include in addition to the common ones, by name or path. */
  readonly programs: readonly string[];
  /** Whether to include the packages installed for this Python. */
  readonly packages: boolean;
  readonly onProgress: (text: string) => void;
  readonly signal: AbortSignal;
}

export interface Packing {
  /** The pid of the packer. */
  readonly pid: number;
  /** Ends without an error only if everything was packed. */
  readonly archive: Readable;
  /** Resolves before the first byte of the archive. */
  readonly facts: Promise<PackedPython>;
}

type PackedPython = z.output<typeof PackedFacts>;

const PackedFacts = z.object({
  version: z.string().regex(/^\d+\.\d+\.\d+$/),
  python: z.string().startsWith('/'),
  /** The search path for programs. */
  path: z.string().startsWith('/'),
  files: z.int(),
  bytes: z.int(),
  missing: z.array(z.string()),
});
const AbsentPackages = z.object({ absent: z.array(z.string()) });
const PackProgress = z.object({ packed: z.int(), of: z.int() });

const PACK_PROGRAM =
  'import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module("cella_image", run_name="__main__", alter_sys=True)';
const MOST_STDERR = 2000;
const MB = 1_000_000;

function packPython({ python, programs, packages, onProgress, signal }: PackOptions): Packing {
  const args = ['-I', '-B', '-X', 'utf8', '-c', PACK_PROGRAM, dirname(kernelPackage())];
  const request = JSON.stringify({ programs, packages });
  const packer = spawn(python, [...args, request], {
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
    killSignal: 'SIGKILL',
  });
  const facts = Promise.withResolvers<PackedPython>();
  let absent: readonly string[] = [];
  let stderrTail = '';
  createInterface({ input: packer.stderr }).on('line', (line) => {
    const value = tryParseJson(line);
    const progress = PackProgress.safeParse(value).data;
    if (progress) onProgress(`${toMb(progress.packed)} of ${toMb(progress.of)} MB packed`);
    const found = PackedFacts.safeParse(value).data;
    if (found) facts.resolve(found);
    absent = AbsentPackages.safeParse(value).data?.absent ?? absent;
    if (value === undefined) stderrTail = `${stderrTail}${line}\n`.slice(-MOST_STDERR);
  });
  const archive = new PassThrough();
  const ended = once(packer, 'close');
  const pack = async () => {
    await pipeline(packer.stdout, archive, { end: false, signal });
    const [code] = await ended;
    if (code !== 0) throw packFailure(python, absent, stderrTail);
    archive.end();
  };
  pack().catch(async (cause) => {
    packer.kill('SIGKILL');
    const error = signal.aborted
      ? signal.reason
      : cause instanceof CellaError
        ? cause
        : packFailure(python, absent, stderrTail, cause);
    facts.reject(error);
    archive.destroy(error);
  });
  ended.catch(() => {}); // `pack` reports it
  // Both report a failure, and a caller may handle only one of them.
  facts.promise.catch(() => {});
  archive.on('error', () => {});
  return { pid: packer.pid ?? 0, archive, facts: facts.promise };
}

function packFailure(python: string, absent: readonly string[], stderrTail: string, cause?: unknown): CellaError {
  if (absent.length > 0) {
    const message = `This machine has no ${absent.join(', no ')}, which should be in the image.`;
    return new CellaError('INVALID_OPTIONS', message, { details: { absent } });
  }
  const last = stderrTail.trim().split('\n').at(-1) || (cause instanceof Error ? cause.message : 'it ended');
  return new CellaError('CONTAINER_FAILED', `${python} could not be packed: ${last}.`, { cause });
}

function toMb(bytes: number): string {
  return (bytes / MB).toFixed(0);
}

interface ListedImage {
  readonly name: string;
  readonly id: string;
  readonly python: string | undefined;
  readonly bytes: number;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
}

const Listed = z.array(
  z.object({
    Id: z.string(),
    RepoTags: z.array(z.string()).nullish(),
    Created: z.number(),
    Size: z.number(),
    Labels: z.record(z.string(), z.string()).nullish(),
  }),
);

/** Newest first. */
export async function listImages(engine: Engine): Promise<ListedImage[]> {
  const list = () => engine.docker.listImages({ filters: { label: [`${IMAGE_LABEL}=1`] } });
  const found = await askEngine(engine, 'listing images', Listed, list);
  const images = found.flatMap(({ Id: id, RepoTags, Created, Size: bytes, Labels }) => {
    const facts = { id, python: Labels?.[PYTHON_LABEL], bytes, createdAt: Created * 1000 };
    const names = (RepoTags ?? []).filter((name) => !name.startsWith('<none>')).map(shortName);
    // An image whose name moved to a newer one still takes up space.
    return (names.length > 0 ? names : [id.replace(/^sha256:/, '').slice(0, 12)]).map((name) => ({ name, ...facts }));
  });
  return images.sort((one, other) => other.createdAt - one.createdAt);
}

/** Removes the registry that Podman puts before names without one. */
function shortName(name: string): string {
  return name.replace(/^(localhost|docker\.io\/library)\//, '');
}

/** Removes only images that Cella built. */
export async function removeImage(engine: Engine, name: string): Promise<ListedImage> {
  const images = await listImages(engine);
  const image = images.find((one) => [name, `${name}:local`].includes(one.name));
  if (!image) {
    // Check whether another image has the name, because the error of a removal does not say how to pull one.
    await findImage(engine, name).catch((error: unknown) => {
      throw isNotFound(error) ? unlisted(name, error) : error;
    });
    throw new CellaError('INVALID_OPTIONS', `${name} is not an image that Cella has built, so it is not deleted.`);
  }
  const remove = () => engine.docker.getImage(image.name).remove();
  await callEngine(engine, 'removing the image', remove, { image: name });
  return image;
}

function isNotFound(error: unknown): boolean {
  return error instanceof CellaError && error.code === 'IMAGE_NOT_FOUND';
}

function unlisted(image: string, cause: unknown): CellaError {
  const message = `There is no image ${image} on this machine: \`cella images list\` shows the images that Cella has built.`;
  return new CellaError('IMAGE_NOT_FOUND', message, { cause, details: { image } });
}
