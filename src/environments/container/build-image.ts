/** Builds an image: from the host's Python, packed with its libraries, or from a base image. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { PassThrough, type Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { parseJson, probePython } from '../../interpreter/find-python.ts';
import { kernelPackage } from '../../interpreter/package-file.ts';
import { answerFromProcess } from '../../lib/deadline.ts';
import { CellaError } from '../../protocol/errors.ts';
import { labelsOf, runThrowaway } from './container.ts';
import { ask, call, type Engine } from './engine.ts';
import { type BuiltImage, CreatedImage, DEFAULT_IMAGE, labelsOfImage, splitName } from './image-names.ts';
import { imageFacts } from './image-python.ts';

export interface BuildOptions {
  /** A Python of this machine. */
  readonly python: string;
  readonly name?: string | undefined;
  /** Beside the common ones, by name or path. */
  readonly programs?: readonly string[];
  /** Whether the packages that are installed for it are taken along. */
  readonly packages?: boolean;
  /** Of Cella. */
  readonly version: string;
  readonly onProgress?: (text: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/** How long the packer may look at a Python with all its packages. */
const LOOK_MS = 10 * 60_000;
/** An engine that stands still for this long is given up. */
const IMPORT_TIMEOUT_MS = 30 * 60_000;

const ImportLine = z.object({ status: z.string().optional(), error: z.string().optional() });

export async function buildImage(engine: Engine, options: BuildOptions): Promise<BuiltImage> {
  const { repo, tag } = parseImageName(options.name);
  const { onProgress = () => {}, programs = [], packages = true } = options;
  await probePython(options.python);
  const stop = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
  onProgress(`Looking at ${options.python} and what it needs`);
  const { pid, archive, facts } = packPython({ python: options.python, programs, packages, onProgress, signal });
  const silent = (why: string) => {
    stop.abort();
    return new CellaError('CONTAINER_FAILED', `${options.python} could not be packed: ${why}.`);
  };
  try {
    const found = await answerFromProcess(facts, { pid, timeoutMs: LOOK_MS }, silent);
    onProgress(`Packing ${found.files} files, ${(found.bytes / 1_000_000).toFixed(0)} MB`);
    const changes = imageChanges(found, options.version);
    const send = async (abortSignal: AbortSignal) => {
      const request = engine.docker.importImage(archive, { changes, abortSignal });
      // Whatever ends the archive early is the reason, and not what the engine makes of it.
      const broken = new Promise<never>((_, reject) => archive.once('error', reject));
      return await Promise.race([request.then((answer) => text(answer)), broken]);
    };
    const importing = call(engine, 'importing the image', send, { timeoutMs: IMPORT_TIMEOUT_MS, signal });
    const answer = await answerFromProcess(importing, { pid, timeoutMs: 2 * IMPORT_TIMEOUT_MS }, silent);
    const image = engine.docker.getImage(idIn(answer));
    // Podman takes no tag with an import.
    await call(engine, 'naming the image', () => image.tag({ repo, tag }));
    const name = `${repo}:${tag}`;
    const { Id: id, Size: bytes } = await ask(engine, 'looking at the image', CreatedImage, () => image.inspect());
    return { name, id, python: found.version, bytes, missing: found.missing };
  } finally {
    stop.abort();
  }
}

export function parseImageName(name: string | undefined): { repo: string; tag: string } {
  const parts = splitName(name ?? DEFAULT_IMAGE);
  if (parts) return parts;
  const hint = 'lower case letters, digits and . _ - /, with a tag after a colon if needed';
  throw new CellaError('INVALID_OPTIONS', `${JSON.stringify(name)} is no name for an image: ${hint}.`);
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

/** One object a line, the id in the last; an error may come after an answer that began well. */
function idIn(answer: string): string {
  const lines = answer.split('\n').flatMap((line) => ImportLine.safeParse(parseJson(line)).data ?? []);
  const problem = lines.find((line) => line.error !== undefined)?.error;
  const id = lines.findLast((line) => line.status !== undefined)?.status;
  if (problem === undefined && id !== undefined && /^(sha256:)?[0-9a-f]{64}$/.test(id)) return id;
  const why = problem ?? 'it did not tell what it has made';
  throw new CellaError('CONTAINER_FAILED', `The container engine failed at importing the image: ${why}.`);
}

export interface BaseOptions {
  readonly name?: string | undefined;
  /** Of Cella. */
  readonly version: string;
  /** Where what the base says of itself is kept. */
  readonly dataDir: string;
  /** The identity of this process: if it is killed, the next one removes what it left behind. */
  readonly owner: string;
  readonly onProgress?: (text: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/** Files that do not compile are no harm: no code can import them. What is compiled already stays as it is. */
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

/** The base must be on this machine: nothing is pulled. */
export async function buildFromBase(engine: Engine, base: string, options: BaseOptions): Promise<BuiltImage> {
  const { repo, tag } = parseImageName(options.name);
  const { onProgress = () => {}, signal, version, dataDir, owner } = options;
  onProgress(`Looking at ${base}`);
  await mkdir(dataDir, { recursive: true });
  const labels = labelsOf(dataDir, owner);
  const facts = await imageFacts(engine, base, dataDir, { signal, labels });
  const look = () => engine.docker.getImage(facts.id).inspect();
  const { Config: config } = await ask(engine, 'looking at the image', BaseConfig, look, { image: base, signal });
  const python = facts.version.join('.');
  const changes = [
    `USER ${config.User || '0:0'}`,
    `WORKDIR ${config.WorkingDir || '/'}`,
    `ENTRYPOINT ${JSON.stringify(toArgv(config.Entrypoint))}`,
    `CMD ${JSON.stringify(toArgv(config.Cmd))}`,
    ...labelsOfImage(version, python),
    // Containers of this image are somebody's own, whatever it was made in.
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
      onProgress(`Keeping it as ${repo}:${tag}`);
      const commit = () => container.commit({ repo, tag, changes, pause: false });
      await call(engine, 'keeping the image', commit, { timeoutMs: COMMIT_TIMEOUT_MS, signal });
    },
  });
  const name = `${repo}:${tag}`;
  const find = () => engine.docker.getImage(name).inspect();
  const made = await ask(engine, 'looking at the image', CreatedImage, find, { image: name });
  return { name, id: made.Id, python, bytes: made.Size, missing: [] };
}

function toArgv(value: z.output<typeof argvSchema>): string[] {
  return typeof value === 'string' ? [value] : (value ?? []);
}

export interface PackOptions {
  /** A Python of this machine. */
  readonly python: string;
  /** Beside the common ones, by name or path. */
  readonly programs: readonly string[];
  /** Whether the packages that are installed for it are taken along. */
  readonly packages: boolean;
  readonly onProgress: (text: string) => void;
  readonly signal: AbortSignal;
}

export interface Packing {
  /** Of the program that packs. */
  readonly pid: number;
  /** Ends well only where everything was packed. */
  readonly archive: Readable;
  /** Known before the first byte of the archive. */
  readonly facts: Promise<PackedPython>;
}

export type PackedPython = z.output<typeof PackedFacts>;

const PackedFacts = z.object({
  version: z.string().regex(/^\d+\.\d+\.\d+$/),
  python: z.string().startsWith('/'),
  /** Where its programs are looked up. */
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

export function packPython({ python, programs, packages, onProgress, signal }: PackOptions): Packing {
  const args = ['-I', '-B', '-X', 'utf8', '-c', PACK_PROGRAM, dirname(kernelPackage())];
  const request = JSON.stringify({ programs, packages });
  const packer = spawn(python, [...args, request], {
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
    killSignal: 'SIGKILL',
  });
  const facts = Promise.withResolvers<PackedPython>();
  let absent: readonly string[] = [];
  let words = '';
  createInterface({ input: packer.stderr }).on('line', (line) => {
    const told = parseJson(line);
    const progress = PackProgress.safeParse(told).data;
    if (progress) onProgress(`${toMb(progress.packed)} of ${toMb(progress.of)} MB packed`);
    const found = PackedFacts.safeParse(told).data;
    if (found) facts.resolve(found);
    absent = AbsentPackages.safeParse(told).data?.absent ?? absent;
    if (told === undefined) words = `${words}${line}\n`.slice(-MOST_STDERR);
  });
  const archive = new PassThrough();
  const ended = once(packer, 'close');
  const pack = async () => {
    await pipeline(packer.stdout, archive, { end: false, signal });
    const [code] = await ended;
    if (code !== 0) throw packFailure(python, absent, words);
    archive.end();
  };
  pack().catch(async (cause) => {
    packer.kill('SIGKILL');
    const error = signal.aborted
      ? signal.reason
      : cause instanceof CellaError
        ? cause
        : packFailure(python, absent, words, cause);
    facts.reject(error);
    archive.destroy(error);
  });
  ended.catch(() => {}); // told by `pack`
  // Each of the two tells of a failure; whoever looks at one need not look at the other.
  facts.promise.catch(() => {});
  archive.on('error', () => {});
  return { pid: packer.pid ?? 0, archive, facts: facts.promise };
}

function packFailure(python: string, absent: readonly string[], words: string, cause?: unknown): CellaError {
  if (absent.length > 0) {
    const message = `This machine has no ${absent.join(', no ')}, which the image was to have.`;
    return new CellaError('INVALID_OPTIONS', message, { details: { absent } });
  }
  const last = words.trim().split('\n').at(-1) || (cause instanceof Error ? cause.message : 'it ended');
  return new CellaError('CONTAINER_FAILED', `${python} could not be packed: ${last}.`, { cause });
}

function toMb(bytes: number): string {
  return (bytes / MB).toFixed(0);
}
