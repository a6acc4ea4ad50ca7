/** Asks the Python of an image about itself, in a container that can reach nothing and is gone afterwards. */

import { PassThrough } from 'node:stream';
import type Docker from 'dockerode';
import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { parseJson } from '../../sandbox/python.ts';
import { ASKING_PROGRAM, MARK } from './asking-program.ts';
import { call, type Engine } from './engine.ts';
import { isGone, reasonOf } from './engine-error.ts';

export interface Question {
  /** By its id: a name may mean another one by now. */
  readonly image: string;
  /** What people call it. */
  readonly name: string;
  /** A folder with the kernel's sources, which it compiles. */
  readonly kernel: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

export const LibC = z.object({ name: z.enum(['glibc', 'musl']), version: z.tuple([z.int(), z.int().max(999)]) });

const Told = z.object({
  version: z.tuple([z.int(), z.int(), z.int()]),
  executable: z.string(),
});

/** What it tells, checked; whoever made the image has written it. */
const Answer = Told.extend({
  executable: z.string().startsWith('/').max(4096),
  tag: z.string().regex(/^[a-z]+\d+[a-z]*(-musl)?-[A-Za-z0-9_]+$/),
  machine: z.string().regex(/^[A-Za-z0-9_]{1,32}$/),
  libc: LibC,
  path: z.string().max(8192),
  /** `frames.py`: its compiled code and where that belongs. */
  compiled: z.record(z.string(), z.object({ at: z.string(), code: z.base64() })),
});

export type ImageAnswer = z.output<typeof Answer>;

const INSIDE = '/cella/kernel';
const MB = 1024 * 1024;
const MOST_BYTES = 32 * MB;
const OLDEST = [3, 9] as const;

export async function askImage(engine: Engine, question: Question): Promise<ImageAnswer> {
  const first = await runProbe(engine, question, 'python3');
  const heard = first.kind === 'absent' ? await runProbe(engine, question, 'python') : first;
  if (heard.kind === 'absent') throw unusable(question, `it has no Python: ${heard.reason}`);
  const line = heard.output.split('\n').find((each) => each.startsWith(MARK));
  const told = parseJson(line?.slice(MARK.length) ?? '');
  const { version } = Told.safeParse(told).data ?? {};
  if (version && (version[0] < OLDEST[0] || (version[0] === OLDEST[0] && version[1] < OLDEST[1]))) {
    throw unusable(question, `its Python is ${version.join('.')}, and ${OLDEST.join('.')} or later is needed`);
  }
  const answer = Answer.safeParse(told);
  if (answer.success) return answer.data;
  const words = heard.errors.trim().split('\n').at(-1) || heard.output.trim().split('\n').at(-1);
  const said = words ? `: ${JSON.stringify(words.slice(0, 300))}` : '';
  throw unusable(question, `its Python does not answer as one does${said}`);
}

type Heard =
  | { readonly kind: 'absent'; readonly reason: string }
  | { readonly kind: 'ended'; readonly output: string; readonly errors: string };

async function runProbe(engine: Engine, question: Question, python: string): Promise<Heard> {
  const { name, signal } = question;
  const create = (abortSignal: AbortSignal) =>
    engine.docker.createContainer({ ...settings(question, python), abortSignal });
  const container = await call(engine, 'making a container', create, { image: name, signal });
  try {
    const attach = () => container.attach({ stream: true, stdout: true, stderr: true });
    const stream = await call(engine, 'attaching to a container', attach, { signal });
    const heard = listen(engine.docker, stream);
    try {
      await call(engine, 'starting a container', (abortSignal) => container.start({ abortSignal }), { signal });
    } catch (error) {
      // Anything but a program that is not there or cannot be run is the engine's own trouble.
      if (error instanceof CellaError && error.code === 'CONTAINER_FAILED' && isExecProblem(error)) {
        return { kind: 'absent', reason: reasonOf(error.cause) };
      }
      throw error;
    }
    return await inTime(heard, question);
  } finally {
    await remove(engine, container);
  }
}

/** Settles with the end of the container, which is the end of its output. */
function listen(docker: Docker, stream: NodeJS.ReadableStream): Promise<Heard> {
  const [output, errors] = [new PassThrough(), new PassThrough()];
  docker.modem.demuxStream(stream, output, errors);
  const parts = { output: '', errors: '' };
  return new Promise((resolve, reject) => {
    const keep = (which: 'output' | 'errors') => (chunk: string) => {
      parts[which] += chunk;
      if (parts.output.length + parts.errors.length > MOST_BYTES) reject(new Error('it says too much'));
    };
    output.setEncoding('utf8').on('data', keep('output'));
    errors.setEncoding('utf8').on('data', keep('errors'));
    stream.on('end', () => setImmediate(() => resolve({ kind: 'ended', ...parts })));
    stream.on('error', reject);
  });
}

async function inTime(heard: Promise<Heard>, question: Question): Promise<Heard> {
  const { timeoutMs, signal } = question;
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`it does not answer within ${timeoutMs / 1000} s`)), timeoutMs);
  const stop = () => late.reject(signal?.reason);
  signal?.addEventListener('abort', stop, { once: true });
  try {
    return await Promise.race([heard, late.promise]);
  } catch (error) {
    signal?.throwIfAborted();
    heard.catch(() => {}); // it ends with its container
    throw unusable(question, `its Python cannot be asked: ${reasonOf(error)}`);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
  }
}

async function remove(engine: Engine, container: Docker.Container): Promise<void> {
  try {
    await call(engine, 'removing a container', (abortSignal) =>
      container.remove({ force: true, v: true, abortSignal }),
    );
  } catch (error) {
    if (!(error instanceof CellaError) || !isGone(error.cause)) throw error;
  }
}

function settings({ image, kernel, labels }: Question, python: string): Docker.ContainerCreateOptions {
  return {
    Image: image,
    Entrypoint: [python, '-I', '-S', '-B', '-c', ASKING_PROGRAM, INSIDE],
    Cmd: [],
    Labels: { ...labels },
    User: '65534:65534',
    WorkingDir: '/',
    Tty: false,
    NetworkDisabled: true,
    Healthcheck: { Test: ['NONE'] },
    StopSignal: 'SIGKILL',
    HostConfig: {
      NetworkMode: 'none',
      ReadonlyRootfs: true,
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      Memory: 512 * MB,
      MemorySwap: 512 * MB,
      PidsLimit: 64,
      // Whatever it says is read as it comes, and nothing is kept on disk.
      LogConfig: { Type: 'none', Config: {} },
      Mounts: [{ Type: 'bind', Source: kernel, Target: INSIDE, ReadOnly: true }],
      Ulimits: [{ Name: 'core', Soft: 0, Hard: 0 }],
    },
  };
}

function isExecProblem(error: CellaError): boolean {
  return /executable file|no such file|not found|exec format|permission denied/i.test(error.message);
}

function unusable({ name }: Question, why: string): CellaError {
  return new CellaError('IMAGE_UNUSABLE', `The image ${name} cannot be used: ${why}.`, { details: { image: name } });
}
