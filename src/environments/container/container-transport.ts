/** Reaches a container through a socket and FIFOs in a bind-mounted folder: pid 1 and each kernel connect to the host. */

import { chmodSync, mkdirSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { onAbort, raceAbort } from '../../lib/abort.ts';
import { withTimeout } from '../../lib/deadline.ts';
import { runProgram } from '../../lib/process-end.ts';
import { singleFlight } from '../../lib/single-flight.ts';
import type { EnvironmentSpec } from '../../protocol/environment-spec.ts';
import { CellaError } from '../../protocol/errors.ts';
import { encodeHostPayload } from '../../protocol/host-payloads.ts';
import type { Interpreter } from '../../protocol/interpreter.ts';
import { FrameType } from '../../protocol/kernel-frames.ts';
import { fromKernel, fromSupervisor } from '../../protocol/kernel-payloads.ts';
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

/** A container whose pid 1 has let go of the host is given this long to be seen as ended. */
const END_TIMEOUT_MS = 5000;

/** More than any start may take: the signal ends the wait. */
const START_TIMEOUT_MS = 3_600_000;
/** Nothing but what people see of a session depends on it. */
const INSPECT_TIMEOUT_MS = 5000;
/** Closing a session waits no longer than this for the engine to clean up. */
const REMOVAL_TIMEOUT_MS = 2000;
/** Between the end of something inside and its connection, which was made before. */
const LATE_CONNECTION_MS = 5000;

/** A kernel that is killed ends sooner; it may be that the container is paused. */
const PAUSE_CHECK_MS = 1500;

/** What is the same for every container of an executor. */
export interface ContainerDefaults extends Omit<ContainerSpec, 'spec' | 'listenerFolder' | 'engine'> {
  readonly engine: Engine;
  /** What people call the image. */
  readonly imageName: string;
  readonly interpreter: Interpreter;
  readonly startTimeoutMs: number;
}

/** The place of one container among those of its executor. */
interface ContainerSlot {
  readonly number: string;
  /** It is made, and removed, with the container. */
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

/** The file with the first token. Pid 1 knows this name. */
const TOKEN_FILE = 'token';

export class ContainerTransport implements SupervisorTransport {
  readonly supervisor: FrameSocket;
  readonly pid: number;
  readonly proxy: NetworkProxy | undefined;
  readonly pauseCheck: PauseCheck;
  readonly #container: Container;
  readonly #listener: ContainerListener;
  readonly #pipes: FifoPool;
  readonly #startTimeoutMs: number;
  readonly #slot: ContainerSlot;
  readonly #gone = Promise.withResolvers<boolean>();
  #released: Promise<void> | undefined;

  private constructor(defaults: ContainerDefaults, slot: ContainerSlot, parts: TransportParts) {
    this.supervisor = parts.supervisor;
    this.pid = parts.pid;
    this.proxy = parts.proxy;
    this.#container = parts.container;
    this.#listener = parts.listener;
    this.#pipes = parts.pipes;
    this.#slot = slot;
    this.#startTimeoutMs = defaults.startTimeoutMs;
    this.pauseCheck = { checkAfterMs: PAUSE_CHECK_MS, isPaused: () => isPaused(parts.container) };
  }

  static async open(
    defaults: ContainerDefaults,
    spec: EnvironmentSpec,
    slot: ContainerSlot,
  ): Promise<ContainerTransport> {
    const { number, folder } = slot;
    await using undo = new AsyncDisposableStack();
    const stop = new AbortController();
    undo.defer(() => stop.abort());
    const deadline = AbortSignal.any([stop.signal, AbortSignal.timeout(defaults.startTimeoutMs)]);
    undo.defer(() => rm(folder, { recursive: true, force: true }));
    fillFolder(folder, spec);
    const listener = await ContainerListener.open(folder);
    undo.defer(() => listener.close());
    // No other container sees this folder.
    const proxy = await openProxy(spec, folder);
    undo.defer(() => proxy?.close());
    const { token, connection } = listener.expect(deadline);
    connection.catch(() => {}); // met below, or something else has failed before
    writeFileSync(join(folder, TOKEN_FILE), token);
    chmodSync(join(folder, TOKEN_FILE), 0o444);
    const pipes = new FifoPool(folder);
    const filled = pipes.fill();
    filled.catch(() => {}); // met below
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
    // Before any user code can run: the socket's name and the token are gone.
    listener.hide();
    unlinkSync(join(folder, TOKEN_FILE));
    const { uid, gid, home, cwd, limits } = spec;
    // The engine has found its folders by their names: pid 1 looks whether they are those that were meant.
    const folders = process.platform === 'linux' ? [...spec.readable, ...outermost(spec.writable)] : [];
    const named = folders.flatMap(({ path, at, id }) => (id ? [{ path: at ?? path, id }] : []));
    const port = proxy && proxyPort(CONTAINER_PATHS.listener);
    const policy = { uid, gid, home, cwd, limits, folders: named, proxy: port };
    supervisor.send(FrameType.open, 0, encodeHostPayload('openContainer', { policy }));
    undo.defer(() => supervisor.close());
    // The image may have a pid 1 that sends nothing more.
    await raceAbort(supervisor.firstFrame, deadline, () => notReady(defaults.startTimeoutMs, deadline.reason));
    undo.move();
    stop.abort();
    return new ContainerTransport(defaults, slot, { supervisor, pid, container, listener, pipes, proxy });
  }

  /** Resolves when it was released; false where the engine may still have the container. */
  get gone(): Promise<boolean> {
    return this.#gone.promise;
  }

  async connect(kernel: number, request: ConnectRequest, signal: AbortSignal): Promise<ProcessConnection> {
    const pair = await this.#pipes.take();
    const late = AbortSignal.timeout(this.#startTimeoutMs);
    const { token, connection } = this.#listener.expect(AbortSignal.any([withLateConnection(signal), late]));
    const { out, err, stdout, stderr } = pair;
    const payload = { ...attachPayload(kernel, request), out, err, token: token.toString('hex') };
    this.supervisor.send(FrameType.attach, 0, encodeHostPayload('attachInContainer', payload));
    try {
      return { control: new FrameSocket(await connection, fromKernel), stdout, stderr };
    } catch (cause) {
      stdout.close();
      stderr.close();
      // A paused container would otherwise keep waiting for a kernel that is not wanted any more.
      if (late.aborted) void this.close();
      const why = late.aborted ? `was not there after ${this.#startTimeoutMs / 1000} s` : 'ended before it was there';
      throw new CellaError('CONTAINER_FAILED', `A kernel in a container ${why}.`, { cause });
    } finally {
      pair.forget();
    }
  }

  /** The image may have a pid 1 that answers, and never reports that it is ready. */
  async awaitAnswer<T>(answer: Promise<T>): Promise<T> {
    return await withTimeout(answer, this.#startTimeoutMs, () => {
      void this.close();
      return notReady(this.#startTimeoutMs, undefined);
    });
  }

  async exitReason(): Promise<ProcessExit> {
    try {
      // Its pid 1 is known to have ended a moment before the engine notices.
      if (!this.#released) await this.#container.ended(END_TIMEOUT_MS);
      const { OOMKilled, ExitCode } = await this.#container.state();
      if (OOMKilled) return { outOfMemory: true, signal: 'SIGKILL' };
      return { signal: 'SIGKILL', environmentEnded: `its container has ended with code ${ExitCode}` };
    } catch {
      // It was removed or paused, or the engine does not answer: it is ended now.
      await this.close();
      return { signal: 'SIGKILL', environmentEnded: 'its container has ended' };
    }
  }

  /** The engine kills what is in a container when it removes it. */
  kill(): Promise<void> {
    return this.close();
  }

  close(): Promise<void> {
    this.#released ??= this.#release();
    return this.#released;
  }

  async #release(): Promise<void> {
    const late = delay(REMOVAL_TIMEOUT_MS, false, { ref: false });
    const removed = await Promise.race([this.#container.remove(), late]);
    this.supervisor.close();
    this.#listener.close();
    this.proxy?.close();
    await rm(this.#slot.folder, { recursive: true, force: true });
    this.#gone.resolve(removed);
  }
}

/** Writes the container's passwd and group files, next to the socket and the FIFOs. */
function fillFolder(folder: string, { uid, gid, home }: EnvironmentSpec): void {
  // Calls of a few microseconds each: going through the thread pool would cost more than they do.
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'passwd'), `cella:x:${uid}:${gid}:cella:${home}:/bin/sh\n`);
  writeFileSync(join(folder, 'group'), `cella:x:${gid}:\n`);
  // Whatever the umask of this process is.
  chmodSync(folder, 0o755);
  for (const name of ['passwd', 'group']) chmodSync(join(folder, name), 0o644);
}

/** A short program may have ended before the host has accepted its connection. */
function withLateConnection(signal: AbortSignal): AbortSignal {
  const over = new AbortController();
  const wait = () => void setTimeout(() => over.abort(signal.reason), LATE_CONNECTION_MS).unref();
  onAbort(signal, wait);
  return over.signal;
}

/** As the host sees it; 0 where the engine is too busy to say. */
async function pidOf(container: Container): Promise<number> {
  const told = container.state().then(
    ({ Pid }) => Pid,
    () => 0, // the start reports the reason
  );
  return await Promise.race([told, delay(INSPECT_TIMEOUT_MS, 0, { ref: false })]);
}

async function isPaused(container: Container): Promise<boolean> {
  return await container.state().then(
    ({ Paused }) => Paused,
    () => false, // an engine that does not answer may be busy, as all else is
  );
}

/** Rejects with the reason if the container ends before its pid 1 has connected. */
async function endedEarly(container: Container, signal: AbortSignal): Promise<never> {
  await container.ended(START_TIMEOUT_MS, signal);
  const [{ ExitCode, OOMKilled }, words] = await Promise.all([container.state(), container.lastOutput()]);
  const why = OOMKilled ? 'it was out of memory' : words || `exit code ${ExitCode}, and it said nothing`;
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
  /** Their names in the folder. */
  readonly out: string;
  readonly err: string;
  readonly stdout: PipeSource;
  readonly stderr: PipeSource;
  /** Once the other ends are open, or never will be. */
  forget(): void;
}

class FifoPool {
  readonly #folder: string;
  readonly #ready: number[] = [];
  #made = 0;
  /** Makes sure that there are some. */
  readonly fill = singleFlight(() => this.#make());

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** A pair with our ends open, so that opening the other ends does not block. */
  async take(): Promise<FifoPair> {
    if (this.#ready.length === 0) await this.fill();
    const number = this.#ready.shift();
    if (number === undefined) throw new CellaError('CONTAINER_FAILED', 'There is no pipe for the output of a kernel.');
    // A failure is reported when the last pair is taken.
    if (this.#ready.length < FEW) this.fill().catch(() => {});
    const [out, err] = fifoNames(number);
    const opened: PipeSource[] = [];
    const forget = () => {
      // The folder may be gone with its container.
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
    // Code may open /dev/stdout again, whichever user it is.
    await runProgram('mkfifo', ['-m', '666', '--', ...paths], MKFIFO_TIMEOUT_MS);
    this.#ready.push(...numbers);
  }
}

function fifoNames(number: number): [out: string, err: string] {
  return [`${number}.out`, `${number}.err`];
}
