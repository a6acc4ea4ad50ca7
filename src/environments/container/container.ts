/** One container from creation to removal; throwaway containers; removal of containers that dead processes left. */

import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import type Docker from 'dockerode';
import { z } from 'zod';
import { onAbort } from '../../lib/abort.ts';
import type { ProcessState } from '../../lib/process-identity.ts';
import { CellaError } from '../../protocol/errors.ts';
import { ask, call, type Engine, isGone, reasonOf } from './engine.ts';

/** An engine that hangs must not hold up others for a container that is not needed any more. */
const REMOVE_TIMEOUT_MS = 10_000;
const INSPECT_TIMEOUT_MS = 10_000;
/** On a machine that makes many containers at once, also one that is well takes seconds to answer. */
const PING_TIMEOUT_MS = 15_000;
const MOST_OUTPUT = 4000;

const Inspected = z.object({
  State: z.object({
    Running: z.boolean(),
    Paused: z.boolean(),
    OOMKilled: z.boolean(),
    ExitCode: z.int(),
    Pid: z.int(),
  }),
});

type ContainerState = z.infer<typeof Inspected>['State'];

export class Container {
  readonly id: string;
  readonly #engine: Engine;
  readonly #container: Docker.Container;
  #removed: Promise<boolean> | undefined;

  constructor(engine: Engine, id: string) {
    this.id = id;
    this.#engine = engine;
    this.#container = engine.docker.getContainer(id);
  }

  /** `image` is what people call it. */
  static async create(engine: Engine, image: string, settings: Docker.ContainerCreateOptions): Promise<Container> {
    const create = (abortSignal: AbortSignal) => engine.docker.createContainer({ ...settings, abortSignal });
    // One that is busy takes long to make a container, and answers at once; one that hangs does neither.
    const hung = Promise.withResolvers<never>();
    call(engine, 'asking whether it is there', () => engine.docker.ping(), { timeoutMs: PING_TIMEOUT_MS }).catch(
      hung.reject,
    );
    const { id } = await Promise.race([call(engine, 'making a container', create, { image }), hung.promise]);
    return new Container(engine, id);
  }

  async start(): Promise<void> {
    await call(this.#engine, 'starting a container', (abortSignal) => this.#container.start({ abortSignal }));
  }

  async state(): Promise<ContainerState> {
    const look = (abortSignal: AbortSignal) => this.#container.inspect({ abortSignal });
    return (await ask(this.#engine, 'looking at a container', Inspected, look, { timeoutMs: INSPECT_TIMEOUT_MS }))
      .State;
  }

  /** Waits for its end; rejects where that does not come in time. */
  async ended(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    const wait = (abortSignal: AbortSignal) => this.#container.wait({ abortSignal });
    await call(this.#engine, 'waiting for the end of a container', wait, { timeoutMs, signal });
  }

  /** What it has said last, before it was silent. */
  async lastOutput(): Promise<string> {
    const options = { stdout: true, stderr: true, tail: 20, follow: false } as const;
    const read = () => this.#container.logs(options);
    const log = await call(this.#engine, 'reading the log of a container', read, { timeoutMs: INSPECT_TIMEOUT_MS });
    const { output, errors } = await collectOutput(this.#engine.docker, Readable.from([log]));
    return `${output}${errors}`.trim().slice(-MOST_OUTPUT);
  }

  /** Whatever it does. False where the engine could not be asked. */
  remove(): Promise<boolean> {
    this.#removed ??= this.#remove();
    return this.#removed;
  }

  async #remove(): Promise<boolean> {
    if (await this.#tryToRemove()) return true;
    // Podman keeps one that is paused.
    const unpause = (abortSignal: AbortSignal) => this.#container.unpause({ abortSignal });
    await call(this.#engine, 'letting a container go on', unpause, { timeoutMs: INSPECT_TIMEOUT_MS }).catch(() => {}); // it was not
    return await this.#tryToRemove();
  }

  async #tryToRemove(): Promise<boolean> {
    const remove = (abortSignal: AbortSignal) => this.#container.remove({ force: true, v: true, abortSignal });
    try {
      await call(this.#engine, 'removing a container', remove, { timeoutMs: REMOVE_TIMEOUT_MS });
      return true;
    } catch (error) {
      return error instanceof Error && isGone(error.cause);
    }
  }
}

export interface ThrowawayRun {
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
  /** Called when it has ended, before it is removed. */
  readonly finished?: (container: Docker.Container) => Promise<void>;
}

export type RunResult =
  | { readonly kind: 'absent'; readonly reason: string }
  | ({ readonly kind: 'ended' } & ContainerOutput);

interface ContainerOutput {
  readonly output: string;
  readonly errors: string;
}

const MB = 1024 * 1024;
const MOST_CHARACTERS = 32 * MB;
const THROWAWAY_LIMITS = { core: 0, nofile: 1024, nproc: 1024 };

export async function runThrowaway(engine: Engine, once: ThrowawayRun): Promise<RunResult> {
  const { name, signal } = once;
  const create = (abortSignal: AbortSignal) =>
    engine.docker.createContainer({ ...throwawayOptions(once), abortSignal });
  const container = await call(engine, 'making a container', create, { image: name, signal });
  let hangUp = () => {};
  try {
    const attach = () => container.attach({ stream: true, stdout: true, stderr: true });
    const stream = await call(engine, 'attaching to a container', attach, { signal });
    hangUp = () => void ('destroy' in stream && typeof stream.destroy === 'function' && stream.destroy());
    const heard = collectOutput(engine.docker, stream);
    await call(engine, 'starting a container', (abortSignal) => container.start({ abortSignal }), { signal });
    const all = await withinTimeout(heard, once);
    await once.finished?.(container);
    return { kind: 'ended', ...all };
  } catch (error) {
    // Docker tells at the start, Podman when it is attached to. All else is the engine's own trouble.
    if (error instanceof CellaError && isExecProblem(error)) return { kind: 'absent', reason: reasonOf(error.cause) };
    throw error;
  } finally {
    // An engine removes a container only after its listeners have disconnected.
    hangUp();
    await new Container(engine, container.id).remove();
  }
}

export function imageUnusable(name: string, why: string): CellaError {
  return new CellaError('IMAGE_UNUSABLE', `The image ${name} cannot be used: ${why}.`, { details: { image: name } });
}

/** Whether the program does not exist or cannot be run. */
function isExecProblem(error: CellaError): boolean {
  if (error.code !== 'CONTAINER_FAILED') return false;
  return /executable file|no such file|not found|exec format|permission denied/i.test(error.message);
}

/** Settles with the end of the stream: that of a container's output is the end of the container. */
function collectOutput(docker: Docker, stream: NodeJS.ReadableStream): Promise<ContainerOutput> {
  const [output, errors] = [new PassThrough(), new PassThrough()];
  docker.modem.demuxStream(stream, output, errors);
  const parts = { output: '', errors: '' };
  const heard = Promise.withResolvers<ContainerOutput>();
  const keep = (which: 'output' | 'errors') => (chunk: string) => {
    parts[which] += chunk;
    if (parts.output.length + parts.errors.length <= MOST_CHARACTERS) return;
    stream.pause();
    heard.reject(new Error('it says too much'));
  };
  output.setEncoding('utf8').on('data', keep('output'));
  errors.setEncoding('utf8').on('data', keep('errors'));
  stream.on('end', () => setImmediate(() => heard.resolve(parts)));
  stream.on('error', heard.reject);
  heard.promise.catch(() => {}); // the caller gets the rejection
  return heard.promise;
}

async function withinTimeout<T>(heard: Promise<T>, { name, timeoutMs, signal }: ThrowawayRun): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`it does not answer within ${timeoutMs / 1000} s`)), timeoutMs);
  using _ = onAbort(signal, () => late.reject(signal?.reason));
  try {
    return await Promise.race([heard, late.promise]);
  } catch (error) {
    signal?.throwIfAborted();
    throw imageUnusable(name, `its Python cannot be asked: ${reasonOf(error)}`);
  } finally {
    clearTimeout(timer);
  }
}

function throwawayOptions({ image, argv, as, mounts = [], labels }: ThrowawayRun): Docker.ContainerCreateOptions {
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
      Ulimits: Object.entries(THROWAWAY_LIMITS).map(([Name, limit]) => ({ Name, Soft: limit, Hard: limit })),
    },
  };
}

const ListedContainers = z.array(
  z.object({ Id: z.string(), State: z.string(), Labels: z.record(z.string(), z.string()) }),
);

/** Podman calls one `stopped` until it has tidied up after it. */
const ENDED_STATES = new Set(['exited', 'stopped', 'dead']);

/** `ours` are the numbers that this process uses. Containers of other data folders are not even looked at. */
export async function removeOrphans(
  engine: Engine,
  dataDir: string,
  owner: Owner,
  ours: ReadonlySet<string>,
): Promise<void> {
  const label = [`${LABEL.cella}=1`, `${LABEL.data}=${dataId(dataDir)}`];
  const list = () => engine.docker.listContainers({ all: true, filters: { label } });
  const listed = await ask(engine, 'listing containers', ListedContainers, list);
  const left = listed.filter(({ State, Labels }) => {
    const whose = Labels[LABEL.owner] ?? '';
    if (whose === owner.self) return !ours.has(Labels[LABEL.number] ?? '');
    const seen = owner.stateOf(whose);
    // Where the owner cannot be seen (before a reboot, or in another container), it has let go of what has ended.
    return seen === 'dead' || (seen === 'unknown' && ENDED_STATES.has(State));
  });
  await Promise.all(left.map(({ Id }) => new Container(engine, Id).remove()));
}

/** Removes the connection folders of dead processes. Returns those of other processes that may be alive. */
export async function removeOrphanFolders(parent: string, owner: Owner): Promise<string[]> {
  const others = (await readdir(parent)).filter((name) => name !== owner.self);
  const dead = others.filter((name) => owner.stateOf(name) === 'dead');
  await Promise.all(dead.map((name) => rm(join(parent, name), { recursive: true, force: true })));
  return others.filter((name) => !dead.includes(name));
}

/** One process, told apart from any other that has, had or will have its pid. */
export interface Owner {
  /** A word for this process. */
  readonly self: string;
  /** What has become of another. `unknown`: it runs, or ran, where this process cannot see it. */
  stateOf(owner: string): ProcessState;
}

export const LABEL = { cella: 'cella', data: 'cella.data', owner: 'cella.owner', number: 'cella.number' } as const;

export function labelsOf(dataDir: string, owner: string): Record<string, string> {
  return { [LABEL.cella]: '1', [LABEL.data]: dataId(dataDir), [LABEL.owner]: owner };
}

/** One word for a data folder; the folder itself stays unnamed. */
export function dataId(dataDir: string): string {
  return createHash('sha256').update(realpathSync.native(dataDir)).digest('hex').slice(0, 32);
}
