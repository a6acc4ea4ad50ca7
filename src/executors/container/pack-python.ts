/** Runs the program that packs this machine's Python, and hands its archive over as it comes. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { kernelPackage, parseJson } from '../../interpreter/find-python.ts';
import { CellaError } from '../../protocol/errors.ts';

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

export type PackedPython = z.output<typeof Facts>;

const Facts = z.object({
  version: z.string().regex(/^\d+\.\d+\.\d+$/),
  python: z.string().startsWith('/'),
  /** Where its programs are looked up. */
  path: z.string().startsWith('/'),
  files: z.int(),
  bytes: z.int(),
  missing: z.array(z.string()),
});
const Absent = z.object({ absent: z.array(z.string()) });
const Progress = z.object({ packed: z.int(), of: z.int() });

const PROGRAM =
  'import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module("cella_image", run_name="__main__", alter_sys=True)';
const MOST_WORDS = 2000;
const MB = 1_000_000;

export function packPython({ python, programs, packages, onProgress, signal }: PackOptions): Packing {
  const args = ['-I', '-B', '-X', 'utf8', '-c', PROGRAM, dirname(kernelPackage())];
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
    const progress = Progress.safeParse(told).data;
    if (progress) onProgress(`${toMb(progress.packed)} of ${toMb(progress.of)} MB packed`);
    const found = Facts.safeParse(told).data;
    if (found) facts.resolve(found);
    absent = Absent.safeParse(told).data?.absent ?? absent;
    if (told === undefined) words = `${words}${line}\n`.slice(-MOST_WORDS);
  });
  const archive = new PassThrough();
  const ended = once(packer, 'close');
  const pack = async () => {
    await pipeline(packer.stdout, archive, { end: false, signal });
    const [code] = await ended;
    if (code !== 0) throw failure(python, absent, words);
    archive.end();
  };
  pack().catch(async (cause) => {
    packer.kill('SIGKILL');
    const error = signal.aborted
      ? signal.reason
      : cause instanceof CellaError
        ? cause
        : failure(python, absent, words, cause);
    facts.reject(error);
    archive.destroy(error);
  });
  ended.catch(() => {}); // told by `pack`
  // Each of the two tells of a failure; whoever looks at one need not look at the other.
  facts.promise.catch(() => {});
  archive.on('error', () => {});
  return { pid: packer.pid ?? 0, archive, facts: facts.promise };
}

function failure(python: string, absent: readonly string[], words: string, cause?: unknown): CellaError {
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
