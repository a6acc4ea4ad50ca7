/**
 * Reaches a container through a socket and FIFOs in a bind-mounted folder: pid 1 and each kernel connect to the host, each
 * with a random token that is accepted once.
 */

import { chmodSync, mkdirSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { onAbort, raceAbort } from '../../lib/abort.ts';
import { valueWithin, withTimeout } from '../../lib/deadline.ts';
import { runProgram } from '../../lib/run-process.ts';
import { singleFlight } from '../../lib/single-flight.ts';
import type { EnvironmentSpec, Interpreter } from '../../protocol/environment-spec.ts';
import { CellaError } from '../../protocol/errors.ts';
import { FrameType } from '../../protocol/kernel-frames.ts';
import { encodeHostPayload, fromKernel, fromSupervisor } from '../../protocol/kernel-payloads.ts';
import type { ProcessExit } from '../../protocol/process.ts';
import { openProxy, proxyPort } from '../../sandbox/proxy/open-proxy.ts';
import type { NetworkProxy } from '../../sandbox/proxy/proxy.ts';
import type { PauseCheck } from '../supervisor/supervisor-client.ts';
import {
  attachPayload,
  type ConnectRequest,
  FrameSocket,
  PipeSource,
  type ProcessConnection,
  type SupervisorTransport,
} from '../supervisor/supervisor-transport.ts';
import { Container, LABEL } from './container.ts';
import { ContainerListener } from './container-listener.ts';
import { CONTAINER_PATHS, type ContainerSpec, containerCreateOptions, outermost } from './container-spec.ts';
import type { Engine } from './engine.ts';

/** How long the engine may take to report the end of a container after pid 1 has closed its connection. */
const END_TIMEOUT_MS = 5000;

/** Longer than any start may take: the abort signal ends the wait. */
const START_TIMEOUT_MS = 3_600_000;
/** Only the displayed details of a session depend on the result. */
const INSPECT_TIMEOUT_MS = 5000;
/** The longest that closing a session waits for the engine to clean up. */
const REMOVAL_TIMEOUT_MS = 2000;
/** How long a connection may arrive after the end of the process that made it. */
const LATE_CONNECTION_MS = 5000;

/** A killed kernel ends sooner than this; if it does not, the container may be paused. */
const PAUSE_CHECK_MS = 1500;

/** Settings that all containers of an executor share. */
export interface ContainerDefaults extends Omit<ContainerSpec, 'spec' | 'listenerFolder' | 'engine'> {
  readonly engine: Engine;
  /** The image name to show to users. */
  readonly imageName: string;
  readonly interpreter: Interpreter;
  readonly startTimeoutMs: number;
}

/** A container's number and connection folder within its executor. */
interface ContainerSlot {
  readonly number: string;
  /** Created and removed with the container. */
  readonly folder: string;
}

interface TransportParts {
  readonly supervisor: FrameSocket;
  readonly pid: number;
  readonly container: Container;
  readonly listener: ContainerListener;
  readonly pipes: FifoPool;
  readonly proxy: NetworkProxy | undefined;
}

/** The file with the first token. Pid 1 expects this name. */
const TOKEN_FILE = 'token';

export class ContainerSupervisorTransport implements SupervisorTransport {
  readonly supervisor: FrameSocket;
  readonly pid: number;
  readonly proxy: NetworkProxy | undefined;
  readonly pauseCheck: PauseCheck;
  readonly #parts: TransportParts;
  readonly #startTimeoutMs: number;
  readonly #slot: ContainerSlot;
  readonly #gone = Promise.withResolvers<boolean>();
  #released: Promise<void> | undefined;

  private constructor(defaults: ContainerDefaults, slot: ContainerSlot, parts: TransportParts) {
    this.supervisor = parts.supervisor;
    this.pid = parts.pid;
    this.proxy = parts.proxy;
    this.#parts = parts;
    this.#slot = slot;
    this.#startTimeoutMs = defaults.startTimeoutMs;
    this.pauseCheck = { checkAfterMs: PAUSE_CHECK_MS, isPaused: () => isPaused(parts.container) };
  }

  static async open(
    defaults: ContainerDefaults,
    spec: EnvironmentSpec,
    slot: ContainerSlot,
  ): Promise<ContainerSupervisorTransport> {
    const { number, folder } = slot;
    await using undo = new AsyncDisposableStack();
    const stop = new AbortController();
    undo.defer(() => stop.abort());
    const deadline = AbortSignal.any([stop.signal, AbortSignal.timeout(defaults.startTimeoutMs)]);
    undo.defer(() => rm(folder, { recursive: true, force: true }));
    fillFolder(folder, spec);
    const listener = await ContainerListener.open(folder);
    undo.defer(() => listener.close());
    // Only this container sees the folder.
    const proxy = await openProxy(spec, folder);
    undo.defer(() => proxy?.close());
    const { token, connection } = listener.expect(deadline);
    connection.catch(() => {}); // awaited below, unless something else fails first
    writeFileSync(join(folder, TOKEN_FILE), token);
    chmodSync(join(folder, TOKEN_FILE), 0o444);
    const pipes = new FifoPool(folder);
    const filled = pipes.fill();
    filled.catch(() => {}); // awaited below
    const labels = { ...defaults.labels, [LABEL.number]: number };
    const settings = containerCreateOptions({ ...defaults, labels, spec, listenerFolder: folder });
    const container = await Container.create(defaults.engine, defaults.imageName, settings);
    undo.defer(async () => void (await container.remove()));
    await container.start();
    const joined = Promise.race([connection, endedEarly(container, deadline)]).catch((error) => {
      throw error instanceof CellaError ? error : notReady(defaults.startTimeoutMs, error);
    });
    const [socket, pid] = await Promise.all([joined, pidOf(container), filled]);
    const supervisor = new FrameSocket(socket, fromSupervisor);
    // Remove the socket's name and the token before any user code can run.
    listener.hide();
    unlinkSync(join(folder, TOKEN_FILE));
    const { uid, gid, home, cwd, limits } = spec;
    // The engine found the folders by name, so pid 1 checks that they are the intended ones.
    const folders = process.platform === 'linux' ? [...spec.readable, ...outermost(spec.writable)] : [];
    const named = folders.flatMap(({ path, at, id }) => (id ? [{ path: at ?? path, id }] : []));
    const port = proxy && proxyPort(CONTAINER_PATHS.listener);
    const policy = { uid, gid, home, cwd, limits, folders: named, proxy: port };
    supervisor.send(FrameType.open, 0, encodeHostPayload('openContainer', { policy }));
    undo.defer(() => supervisor.close());
    // Pid 1 may come from the image and never send anything.
    await raceAbort(supervisor.firstFrame, deadline, () => notReady(defaults.startTimeoutMs, deadline.reason));
    undo.move();
    stop.abort();
    return new ContainerSupervisorTransport(defaults, slot, { supervisor, pid, container, listener, pipes, proxy });
  }

  /** Resolves when the container is released; false if the engine may still have it. */
  get gone(): Promise<boolean> {
    return this.#gone.promise;
  }

  async connect(kernel: number, request: ConnectRequest, signal: AbortSignal): Promise<ProcessConnection> {
    const pair = await this.#parts.pipes.take();
    const late = AbortSignal.timeout(this.#startTimeoutMs);
    const { token, connection } = this.#parts.listener.expect(AbortSignal.any([withLateConnection(signal), late]));
    const { out, err, stdout, stderr } = pair;
    const payload = { ...attachPayload(kernel, request), out, err, token: token.toString('hex') };
    this.supervisor.send(FrameType.attach, 0, encodeHostPayload('attachInContainer', payload));
    try {
      return { control: new FrameSocket(await connection, fromKernel), stdout, stderr };
    } catch (cause) {
      stdout.close();
      stderr.close();
      // Otherwise a paused container keeps waiting for a kernel that is no longer needed.
      if (late.aborted) void this.close();
      const why = late.aborted ? `was not ready after ${this.#startTimeoutMs / 1000} s` : 'ended before it was ready';
      throw new CellaError('CONTAINER_FAILED', `A kernel in a container ${why}.`, { cause });
    } finally {
      pair.forget();
    }
  }

  /** Pid 1 may come from the image, and answer without ever reporting that it is ready. */
  async awaitAnswer<T>(answer: Promise<T>): Promise<T> {
    return await withTimeout(answer, this.#startTimeoutMs, () => {
      void this.close();
      return notReady(this.#startTimeoutMs, undefined);
    });
  }

  async exitReason(): Promise<ProcessExit> {
    try {
      // The connection shows the end of pid 1 slightly before the engine notices it.
      if (!this.#released) await this.#parts.container.ended(END_TIMEOUT_MS);
      const { OOMKilled, ExitCode } = await this.#parts.container.state();
      if (OOMKilled) return { outOfMemory: true, signal: 'SIGKILL' };
      return { signal: 'SIGKILL', environmentEnded: `its container has ended with code ${ExitCode}` };
    } catch {
      // The container was removed or paused, or the engine does not answer.
      await this.close();
      return { signal: 'SIGKILL', environmentEnded: 'its container has ended' };
    }
  }

  /** Removing a container kills the processes in it. */
  kill(): Promise<void> {
    return this.close();
  }

  close(): Promise<void> {
    this.#released ??= this.#release();
    return this.#released;
  }

  async #release(): Promise<void> {
    const removed = await valueWithin(this.#parts.container.remove(), REMOVAL_TIMEOUT_MS, false);
    this.supervisor.close();
    this.#parts.listener.close();
    this.proxy?.close();
    await rm(this.#slot.folder, { recursive: true, force: true });
    this.#gone.resolve(removed);
  }
}

/** Writes the container's passwd and group files, next to the socket and the FIFOs. */
function fillFolder(folder: string, { uid, gid, home }: EnvironmentSpec): void {
  // These calls take microseconds each; the thread pool would cost more than they do.
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'passwd'), `cella:x:${uid}:${gid}:cella:${home}:/bin/sh\n`);
  writeFileSync(join(folder, 'group'), `cella:x:${gid}:\n`);
  // mkdir applies this process's umask.
  chmodSync(folder, 0o755);
  for (const name of ['passwd', 'group']) chmodSync(join(folder, name), 0o644);
}

/** A short program may end before the host accepts its connection. */
function withLateConnection(signal: AbortSignal): AbortSignal {
  const over = new AbortController();
  const wait = () => void setTimeout(() => over.abort(signal.reason), LATE_CONNECTION_MS).unref();
  onAbort(signal, wait);
  return over.signal;
}

/** The container's pid on the host; 0 if the engine is too busy to report it. */
async function pidOf(container: Container): Promise<number> {
  // If the container has ended, the start reports the reason.
  const pid = container.state().then(({ Pid }) => Pid);
  return await valueWithin(pid, INSPECT_TIMEOUT_MS, 0);
}

async function isPaused(container: Container): Promise<boolean> {
  return await container.state().then(
    ({ Paused }) => Paused,
    () => false, // an engine that does not answer may just be busy
  );
}

/** Rejects with the reason if the container ends before its pid 1 has connected. */
async function endedEarly(container: Container, signal: AbortSignal): Promise<never> {
  await container.ended(START_TIMEOUT_MS, signal);
  const [{ ExitCode, OOMKilled }, words] = await Promise.all([container.state(), container.lastOutput()]);
  const why = OOMKilled ? 'it was out of memory' : words || `exit code ${ExitCode}, without a message`;
  throw new CellaError('CONTAINER_FAILED', `The container ended before its Python was ready: ${why}.`);
}

function notReady(timeoutMs: number, cause: unknown): CellaError {
  const message = `Python in the container was not ready after ${timeoutMs / 1000} s; a module of preload may hang.`;
  return new CellaError('CONTAINER_FAILED', message, { cause });
}

const MKFIFO_TIMEOUT_MS = 10_000;
const STOCK = 8;
const FEW = 3;

interface FifoPair {
  /** File names in the folder. */
  readonly out: string;
  readonly err: string;
  readonly stdout: PipeSource;
  readonly stderr: PipeSource;
  /** Call when the other ends are open, or can no longer be opened. */
  forget(): void;
}

class FifoPool {
  readonly #folder: string;
  readonly #ready: number[] = [];
  #made = 0;
  /** Makes pairs until some are ready. */
  readonly fill = singleFlight(() => this.#make());

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Takes a pair with the host's ends open, so that opening the other ends does not block. */
  async take(): Promise<FifoPair> {
    if (this.#ready.length === 0) await this.fill();
    const number = this.#ready.shift();
    if (number === undefined) throw new CellaError('CONTAINER_FAILED', 'There is no pipe for the output of a kernel.');
    // If this fails, the error is reported when the last pair is taken.
    if (this.#ready.length < FEW) this.fill().catch(() => {});
    const [out, err] = fifoNames(number);
    const opened: PipeSource[] = [];
    const forget = () => {
      // The folder may have been removed with its container.
      for (const name of [out, err]) rmSync(join(this.#folder, name), { force: true });
    };
    try {
      for (const name of [out, err]) opened.push(new PipeSource(join(this.#folder, name)));
      const [stdout, stderr] = opened as [PipeSource, PipeSource];
      return { out, err, stdout, stderr, forget };
    } catch (error) {
      for (const source of opened) source.close();
      throw error;
    }
  }

  async #make(): Promise<void> {
    const numbers = Array.from({ length: STOCK }, () => this.#made++);
    const paths = numbers.flatMap(fifoNames).map((name) => join(this.#folder, name));
    // Code can reopen /dev/stdout, as any user.
    await runProgram(['mkfifo', '-m', '666', '--', ...paths], MKFIFO_TIMEOUT_MS);
    this.#ready.push(...numbers);
  }
}

function fifoNames(number: number): [out: string, err: string] {
  return [`${number}.out`, `${number}.err`];
}
