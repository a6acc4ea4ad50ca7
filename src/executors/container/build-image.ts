/** Makes an image without any registry: the Python of this machine as its whole root, streamed into the engine. */

import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { interpreterFacts, parseJson } from '../../interpreter/find-python.ts';
import { answerFromProcess } from '../../lib/deadline.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type BuiltImage, DEFAULT_IMAGE, labelsOfImage, Made, splitName } from './default-image.ts';
import { ask, call, type Engine } from './engine.ts';
import { type PackedPython, packPython } from './pack-python.ts';

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
const IMPORT_MS = 30 * 60_000;

const Line = z.object({ status: z.string().optional(), error: z.string().optional() });

export async function buildImage(engine: Engine, options: BuildOptions): Promise<BuiltImage> {
  const { repo, tag } = checkedName(options.name);
  const { onProgress = () => {}, programs = [], packages = true } = options;
  await interpreterFacts(options.python);
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
    const changes = settings(found, options.version);
    const send = async (abortSignal: AbortSignal) => {
      const request = engine.docker.importImage(archive, { changes, abortSignal });
      // Whatever ends the archive early is the reason, and not what the engine makes of it.
      const broken = new Promise<never>((_, reject) => archive.once('error', reject));
      return await Promise.race([request.then((answer) => text(answer)), broken]);
    };
    const importing = call(engine, 'importing the image', send, { timeoutMs: IMPORT_MS, signal });
    const answer = await answerFromProcess(importing, { pid, timeoutMs: 2 * IMPORT_MS }, silent);
    const image = engine.docker.getImage(idIn(answer));
    // Podman takes no tag with an import.
    await call(engine, 'naming the image', () => image.tag({ repo, tag }));
    const name = `${repo}:${tag}`;
    const { Id: id, Size: bytes } = await ask(engine, 'looking at the image', Made, () => image.inspect());
    return { name, id, python: found.version, bytes, missing: found.missing };
  } finally {
    stop.abort();
  }
}

export function checkedName(name: string | undefined): { repo: string; tag: string } {
  const parts = splitName(name ?? DEFAULT_IMAGE);
  if (parts) return parts;
  const hint = 'lower case letters, digits and . _ - /, with a tag after a colon if needed';
  throw new CellaError('INVALID_OPTIONS', `${JSON.stringify(name)} is no name for an image: ${hint}.`);
}

function settings({ version, path }: PackedPython, cella: string): string[] {
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
  const lines = answer.split('\n').flatMap((line) => Line.safeParse(parseJson(line)).data ?? []);
  const problem = lines.find((line) => line.error !== undefined)?.error;
  const id = lines.findLast((line) => line.status !== undefined)?.status;
  if (problem === undefined && id !== undefined && /^(sha256:)?[0-9a-f]{64}$/.test(id)) return id;
  const why = problem ?? 'it did not tell what it has made';
  throw new CellaError('CONTAINER_FAILED', `The container engine failed at importing the image: ${why}.`);
}
