/** One container from creation to removal; throwaway containers; removal of containers that dead processes left behind. */

import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type Docker from 'dockerode';
import { z } from 'zod';
import { raceAbort } from '../../lib/abort.ts';
import { withTimeout } from '../../lib/deadline.ts';
import type { ProcessState } from '../../lib/process-identity.ts';
import { CellaError } from '../../protocol/errors.ts';
import { askEngine, callEngine, type Engine, isNotFound, reasonOf } from './engine.ts';

/** An engine that hangs must not delay callers that no longer need a container. */
const REMOVE_TIMEOUT_MS = 10_000;
const INSPECT_TIMEOUT_MS = 10_000;
/** Even a healthy engine takes seconds to answer if many containers are being created at once. */
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

  /** `image` is the name to show to users. */
  static async create(engine: Engine, image: string, settings: Docker.ContainerCreateOptions): Promise<Container> {
    const create = (abortSignal: AbortSignal) => engine.docker.createContainer({ ...settings, abortSignal });
    // A busy engine is slow to create a container but answers a ping; an engine that hangs does neither.
    const hung = Promise.withResolvers<never>();
    callEngine(engine, 'checking whether it exists', () => engine.docker.ping(), { timeoutMs: PING_TIMEOUT_MS }).catch(
      hung.reject,
    );
    const { id } = await Promise.race([callEngine(engine, 'making a container', create, { image }), hung.promise]);
    return new Container(engine, id);
  }

  async start(): Promise<void> {
    await callEngine(this.#engine, 'starting a container', (abortSignal) => this.#container.start({ abortSignal }));
  }

  async state(): Promise<ContainerState> {
    const inspect = (abortSignal: AbortSignal) => this.#container.inspect({ abortSignal });
    return (
      await askEngine(this.#engine, 'inspecting a container', Inspected, inspect, { timeoutMs: INSPECT_TIMEOUT_MS })
    ).State;
  }

  /** Waits for the container to end; rejects on timeout. */
  async ended(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    const wait = (abortSignal: AbortSignal) => this.#container.wait({ abortSignal });
    await callEngine(this.#engine, 'waiting for the end of a container', wait, { timeoutMs, signal });
  }

  /** The container's last output. */
  async lastOutput(): Promise<string> {
    const options = { stdout: true, stderr: true, tail: 20, follow: false } as const;
    const read = () => this.#container.logs(options);
    const log = await callEngine(this.#engine, 'reading the log of a container', read, {
      timeoutMs: INSPECT_TIMEOUT_MS,
    });
    const { output, errors } = await collectOutput(Readable.from([log]));
    return `${output}${errors}`.trim().slice(-MOST_OUTPUT);
  }

  /** Removes the container in any state. Resolves with false if the engine could not be reached. */
  remove(): Promise<boolean> {
    this.#removed ??= this.#remove();
    return this.#removed;
  }

  async #remove(): Promise<boolean> {
    if (await this.#tryToRemove()) return true;
    // Podman does not remove a paused container.
    const unpause = (abortSignal: AbortSignal) => this.#container.unpause({ abortSignal });
    await callEngine(this.#engine, 'resuming a container', unpause, { timeoutMs: INSPECT_TIMEOUT_MS }).catch(() => {}); // it was not paused
    return await this.#tryToRemove();
  }

  async #tryToRemove(): Promise<boolean> {
    const remove = (abortSignal: AbortSignal) => this.#container.remove({ force: true, v: true, abortSignal });
    try {
      await callEngine(this.#engine, 'removing a container', remove, { timeoutMs: REMOVE_TIMEOUT_MS });
      return true;
    } catch (error) {
      return error instanceof Error && isNotFound(error.cause);
    }
  }
}

export interface ThrowawayRun {
  /** The image id. A name could mean another image by now. */
  readonly image: string;
  /** The image name to show to users. */
  readonly name: string;
  readonly argv: readonly string[];
  /** A `root` container can change its files, which are discarded unless `finished` keeps them. */
  readonly as: 'nobody' | 'root';
  readonly mounts?: Docker.MountConfig;
  readonly labels: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Called after the container ends and before it is removed. */
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
  const container = await callEngine(engine, 'making a container', create, { image: name, signal });
  let hangUp = () => {};
  try {
    const attach = () => container.attach({ stream: true, stdout: true, stderr: true });
    const stream = await callEngine(engine, 'attaching to a container', attach, { signal });
    hangUp = () => void ('destroy' in stream && typeof stream.destroy === 'function' && stream.destroy());
    const collected = collectOutput(stream);
    await callEngine(engine, 'starting a container', (abortSignal) => container.start({ abortSignal }), { signal });
    const all = await withinTimeout(collected, once);
    await once.finished?.(container);
    return { kind: 'ended', ...all };
  } catch (error) {
    // Docker reports this at the start, Podman on attach. Any other error is a problem of the engine.
    if (error instanceof CellaError && isExecProblem(error)) return { kind: 'absent', reason: reasonOf(error.cause) };
    throw error;
  } finally {
    // An engine removes a container only after its listeners disconnect.
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

/** Settles when the stream ends, which is when the container ends. */
export function collectOutput(stream: NodeJS.ReadableStream): Promise<ContainerOutput> {
  const [decoder, output, errors] = [new AttachDecoder(), new TextDecoder(), new TextDecoder()];
  const parts = { output: '', errors: '' };
  const collected = Promise.withResolvers<ContainerOutput>();
  const take = (chunk: Buffer) => {
    try {
      for (const { kind, bytes } of decoder.push(chunk)) {
        if (kind === 'errors') parts.errors += errors.decode(bytes, { stream: true });
        else parts.output += output.decode(bytes, { stream: true });
      }
      if (parts.output.length + parts.errors.length > MOST_CHARACTERS) throw new Error('its output is too long');
    } catch (error) {
      stream.off('data', take);
      stream.pause();
      collected.reject(error);
    }
  };
  stream.on('data', take);
  stream.on('end', () => {
    collected.resolve({ output: parts.output + output.decode(), errors: parts.errors + errors.decode() });
  });
  stream.on('error', collected.reject);
  collected.promise.catch(() => {}); // the caller gets the rejection
  return collected.promise;
}

const FRAME_HEAD_BYTES = 8;
const STDERR = 2;

/**
 * Decodes container output as engines send it: frames of a stream number, three zero bytes, a length and the data. The client
 * library decodes recursively, so a container that writes byte by byte would overflow its stack.
 */
class AttachDecoder {
  readonly #head = Buffer.alloc(FRAME_HEAD_BYTES);
  #headHas = 0;
  /** Bytes of the current frame that are still missing. */
  #left = 0;

  *push(chunk: Buffer): Generator<{ readonly kind: keyof ContainerOutput; readonly bytes: Buffer }> {
    for (let at = 0; at < chunk.length; ) {
      if (this.#left === 0) {
        at += this.#fillHead(chunk, at);
        continue;
      }
      const bytes = chunk.subarray(at, at + this.#left);
      this.#left -= bytes.length;
      at += bytes.length;
      yield { kind: this.#head[0] === STDERR ? 'errors' : 'output', bytes };
    }
  }

  #fillHead(chunk: Buffer, at: number): number {
    const count = chunk.copy(this.#head, this.#headHas, at, at + FRAME_HEAD_BYTES - this.#headHas);
    this.#headHas += count;
    if (this.#headHas < FRAME_HEAD_BYTES) return count;
    this.#headHas = 0;
    if ((this.#head[0] ?? 0) > STDERR) throw new Error('the engine sent invalid container output');
    this.#left = this.#head.readUInt32BE(4);
    return count;
  }
}

async function withinTimeout<T>(collected: Promise<T>, { name, timeoutMs, signal }: ThrowawayRun): Promise<T> {
  const late = () => new Error(`it does not answer within ${timeoutMs / 1000} s`);
  try {
    return await raceAbort(withTimeout(collected, timeoutMs, late), signal, () => signal?.reason);
  } catch (error) {
    signal?.throwIfAborted();
    throw imageUnusable(name, `its Python cannot be checked: ${reasonOf(error)}`);
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
      // The output is read as it arrives; nothing is stored on disk.
      LogConfig: { Type: 'none', Config: {} },
      Mounts: mounts,
      // Podman raises limits that are not set here, which an unprivileged user may not be allowed to do.
      Ulimits: Object.entries(THROWAWAY_LIMITS).map(([Name, limit]) => ({ Name, Soft: limit, Hard: limit })),
    },
  };
}

const ListedContainers = z.array(
  z.object({ Id: z.string(), State: z.string(), Labels: z.record(z.string(), z.string()) }),
);

/** Podman reports a container as `stopped` until it has cleaned up. */
const ENDED_STATES = new Set(['exited', 'stopped', 'dead']);

/** `ours` are the numbers that this process uses. Ignores containers of other data folders. */
export async function removeOrphans(
  engine: Engine,
  dataDir: string,
  owner: Owner,
  ours: ReadonlySet<string>,
): Promise<void> {
  const label = [`${LABEL.cella}=1`, `${LABEL.data}=${dataId(dataDir)}`];
  const list = () => engine.docker.listContainers({ all: true, filters: { label } });
  const listed = await askEngine(engine, 'listing containers', ListedContainers, list);
  const left = listed.filter(({ State, Labels }) => {
    const whose = Labels[LABEL.owner] ?? '';
    if (whose === owner.self) return !ours.has(Labels[LABEL.number] ?? '');
    const seen = owner.stateOf(whose);
    // If the owner is not visible (it ran before a reboot, or in another container), only ended containers are orphans.
    return seen === 'dead' || (seen === 'unknown' && ENDED_STATES.has(State));
  });
  await Promise.all(left.map(({ Id }) => new Container(engine, Id).remove()));
}

/** Removes the connection folders of dead processes. Returns the folders of other processes that may be alive. */
export async function removeOrphanFolders(parent: string, owner: Owner): Promise<string[]> {
  const others = (await readdir(parent)).filter((name) => name !== owner.self);
  const dead = others.filter((name) => owner.stateOf(name) === 'dead');
  await Promise.all(dead.map((name) => rm(join(parent, name), { recursive: true, force: true })));
  return others.filter((name) => !dead.includes(name));
}

/** Identifies one process, distinct from every other process that ever has the same pid. */
export interface Owner {
  /** Identifies this process. */
  readonly self: string;
  /** The state of another process. `unknown`: it runs, or ran, out of sight of this process. */
  stateOf(owner: string): ProcessState;
}

export const LABEL = { cella: 'cella', data: 'cella.data', owner: 'cella.owner', number: 'cella.number' } as const;

export function labelsOf(dataDir: string, owner: string): Record<string, string> {
  return { [LABEL.cella]: '1', [LABEL.data]: dataId(dataDir), [LABEL.owner]: owner };
}

/** An id for a data folder that does not reveal its path. */
export function dataId(dataDir: string): string {
  return createHash('sha256').update(realpathSync.native(dataDir)).digest('hex').slice(0, 32);
}
