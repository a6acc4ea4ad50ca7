/** Runs a program of an image to its end, in a container that can reach nothing and is gone afterwards. */

import { PassThrough } from 'node:stream';
import type Docker from 'dockerode';
import { CellaError } from '../../protocol/errors.ts';
import { Container } from './container.ts';
import { call, type Engine } from './engine.ts';
import { reasonOf } from './engine-error.ts';

export interface Once {
  /** By its id: a name may mean another one by now. */
  readonly image: string;
  /** What people call it. */
  readonly name: string;
  readonly argv: readonly string[];
  /** `root`: it may change its files, which are thrown away unless `finished` keeps them. */
  readonly as: 'nobody' | 'root';
  readonly mounts?: Docker.MountConfig;
  readonly labels: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Told when it has ended, before it goes. */
  readonly finished?: (container: Docker.Container) => Promise<void>;
}

export type Heard =
  | { readonly kind: 'absent'; readonly reason: string }
  | { readonly kind: 'ended'; readonly output: string; readonly errors: string };

const MB = 1024 * 1024;
const MOST_CHARACTERS = 32 * MB;
const LIMITS = { core: 0, nofile: 1024, nproc: 1024 };

export async function runOnce(engine: Engine, once: Once): Promise<Heard> {
  const { name, signal } = once;
  const create = (abortSignal: AbortSignal) => engine.docker.createContainer({ ...settings(once), abortSignal });
  const container = await call(engine, 'making a container', create, { image: name, signal });
  let hangUp = () => {};
  try {
    const attach = () => container.attach({ stream: true, stdout: true, stderr: true });
    const stream = await call(engine, 'attaching to a container', attach, { signal });
    hangUp = () => void ('destroy' in stream && typeof stream.destroy === 'function' && stream.destroy());
    const heard = listen(engine.docker, stream);
    await call(engine, 'starting a container', (abortSignal) => container.start({ abortSignal }), { signal });
    const all = await inTime(heard, once);
    await once.finished?.(container);
    return all;
  } catch (error) {
    // Docker tells at the start, Podman when it is attached to. All else is the engine's own trouble.
    if (error instanceof CellaError && isExecProblem(error)) return { kind: 'absent', reason: reasonOf(error.cause) };
    throw error;
  } finally {
    // An engine waits for whoever listens before it lets go of a container.
    hangUp();
    await new Container(engine, container.id).remove();
  }
}

export function unusable(name: string, why: string): CellaError {
  return new CellaError('IMAGE_UNUSABLE', `The image ${name} cannot be used: ${why}.`, { details: { image: name } });
}

/** Whether the program is not there, or is none that can be run. */
function isExecProblem(error: CellaError): boolean {
  if (error.code !== 'CONTAINER_FAILED') return false;
  return /executable file|no such file|not found|exec format|permission denied/i.test(error.message);
}

/** Settles with the end of the container, which is the end of its output. */
function listen(docker: Docker, stream: NodeJS.ReadableStream): Promise<Heard> {
  const [output, errors] = [new PassThrough(), new PassThrough()];
  docker.modem.demuxStream(stream, output, errors);
  const parts = { output: '', errors: '' };
  const heard = Promise.withResolvers<Heard>();
  const keep = (which: 'output' | 'errors') => (chunk: string) => {
    parts[which] += chunk;
    if (parts.output.length + parts.errors.length <= MOST_CHARACTERS) return;
    stream.pause();
    heard.reject(new Error('it says too much'));
  };
  output.setEncoding('utf8').on('data', keep('output'));
  errors.setEncoding('utf8').on('data', keep('errors'));
  stream.on('end', () => setImmediate(() => heard.resolve({ kind: 'ended', ...parts })));
  stream.on('error', heard.reject);
  heard.promise.catch(() => {}); // whoever waits for it is told
  return heard.promise;
}

async function inTime(heard: Promise<Heard>, { name, timeoutMs, signal }: Once): Promise<Heard> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`it does not answer within ${timeoutMs / 1000} s`)), timeoutMs);
  const stop = () => late.reject(signal?.reason);
  signal?.addEventListener('abort', stop, { once: true });
  try {
    return await Promise.race([heard, late.promise]);
  } catch (error) {
    signal?.throwIfAborted();
    throw unusable(name, `its Python cannot be asked: ${reasonOf(error)}`);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
  }
}

function settings({ image, argv, as, mounts = [], labels }: Once): Docker.ContainerCreateOptions {
  return {
    Image: image,
    Entrypoint: [...argv],
    Cmd: [],
    Labels: { ...labels },
    User: as === 'root' ? '0:0' : '65534:65534',
    WorkingDir: '/',
    Tty: false,
    NetworkDisabled: true,
    Healthcheck: { Test: ['NONE'] },
    StopSignal: 'SIGKILL',
    HostConfig: {
      NetworkMode: 'none',
      ReadonlyRootfs: as !== 'root',
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      Memory: 1024 * MB,
      MemorySwap: 1024 * MB,
      PidsLimit: 64,
      // Whatever it says is read as it comes, and nothing is kept on disk.
      LogConfig: { Type: 'none', Config: {} },
      Mounts: mounts,
      // Podman raises what is not named, which not everybody who runs it may do.
      Ulimits: Object.entries(LIMITS).map(([Name, limit]) => ({ Name, Soft: limit, Hard: limit })),
    },
  };
}
