/** The way into a container: pid 1 comes to the host's door, and brings the kernels that the host asks it for. */

import { chmodSync, mkdirSync, unlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ProcessExit } from '../../kernel/kernel-connection.ts';
import { untilAborted, withTimeout } from '../../lib/deadline.ts';
import { CellaError } from '../../protocol/errors.ts';
import { FrameType } from '../../protocol/frames.ts';
import type { Interpreter } from '../../protocol/interpreter.ts';
import { fromKernel, fromSupervisor } from '../../protocol/kernel.ts';
import { openProxy, proxySpec } from '../../sandbox/proxy/open-proxy.ts';
import type { NetworkProxy } from '../../sandbox/proxy/proxy.ts';
import type { EnvironmentSpec } from '../../sandbox/spec.ts';
import type { Stillness } from '../held-still.ts';
import { FrameSocket } from '../sockets.ts';
import { type Connection, type Purpose, placeOf, type Way } from '../way.ts';
import { Container } from './container.ts';
import { Door } from './door.ts';
import type { Engine } from './engine.ts';
import { outermost } from './folders.ts';
import { LABEL } from './owner.ts';
import { Pipes } from './pipes.ts';
import { type ContainerPlan, containerSettings, INSIDE } from './settings.ts';

/** A container whose pid 1 has let go of the host is given this long to be seen as ended. */
const LONGEST_END_MS = 5000;

/** More than any start may take: the signal ends the wait. */
const LONGEST_START_MS = 3_600_000;
/** Nothing but what people see of a session depends on it. */
const LONGEST_LOOK_MS = 5000;
/** Whoever closes a session does not wait longer for an engine to tidy up. */
const LONGEST_REMOVAL_MS = 2000;
/** Between the end of something inside and its connection, which was made before. */
const LONGEST_KNOCK_MS = 5000;

/** A kernel that is killed ends sooner; it may be that the container is paused. */
const STRANGE_KILL_MS = 1500;

/** What is the same for every container of an executor. */
export interface Site extends Omit<ContainerPlan, 'spec' | 'door' | 'engine'> {
  readonly engine: Engine;
  /** What people call the image. */
  readonly imageName: string;
  readonly interpreter: Interpreter;
  readonly startTimeoutMs: number;
}

/** The place of one container among those of its executor. */
export interface Berth {
  readonly number: string;
  /** It is made, and removed, with the container. */
  readonly folder: string;
}

interface Parts {
  readonly supervisor: FrameSocket;
  readonly pid: number;
  readonly container: Container;
  readonly door: Door;
  readonly pipes: Pipes;
  readonly proxy: NetworkProxy | undefined;
}

/** The file that holds the first word, as pid 1 knows it. */
const WORD = 'word';

export class ContainerWay implements Way {
  readonly supervisor: FrameSocket;
  readonly pid: number;
  readonly proxy: NetworkProxy | undefined;
  readonly stillness: Stillness;
  readonly #container: Container;
  readonly #door: Door;
  readonly #pipes: Pipes;
  readonly #startTimeoutMs: number;
  readonly #berth: Berth;
  readonly #gone = Promise.withResolvers<boolean>();
  #released: Promise<void> | undefined;

  private constructor(site: Site, berth: Berth, parts: Parts) {
    this.supervisor = parts.supervisor;
    this.pid = parts.pid;
    this.proxy = parts.proxy;
    this.#container = parts.container;
    this.#door = parts.door;
    this.#pipes = parts.pipes;
    this.#berth = berth;
    this.#startTimeoutMs = site.startTimeoutMs;
    this.stillness = { lookMs: STRANGE_KILL_MS, heldStill: () => isPaused(parts.container) };
  }

  static async open(site: Site, spec: EnvironmentSpec, berth: Berth): Promise<ContainerWay> {
    const { number, folder } = berth;
    await using undo = new AsyncDisposableStack();
    const stop = new AbortController();
    undo.defer(() => stop.abort());
    const deadline = AbortSignal.any([stop.signal, AbortSignal.timeout(site.startTimeoutMs)]);
    undo.defer(() => rm(folder, { recursive: true, force: true }));
    fillFolder(folder, spec);
    const door = await Door.open(folder);
    undo.defer(() => door.close());
    // Nobody but this container sees its door.
    const proxy = await openProxy(spec, folder);
    undo.defer(() => proxy?.close());
    const { word, connection } = door.expect(deadline);
    connection.catch(() => {}); // met below, or something else has failed before
    writeFileSync(join(folder, WORD), word);
    chmodSync(join(folder, WORD), 0o444);
    const pipes = new Pipes(folder);
    const filled = pipes.fill();
    filled.catch(() => {}); // met below
    const labels = { ...site.labels, [LABEL.number]: number };
    const settings = containerSettings({ ...site, labels, spec, door: folder });
    const container = await Container.create(site.engine, site.imageName, settings);
    undo.defer(async () => void (await container.remove()));
    await container.start();
    const joined = Promise.race([connection, endedEarly(container, deadline)]).catch((error) => {
      throw error instanceof CellaError ? error : notReady(site.startTimeoutMs, error);
    });
    const [socket, pid] = await Promise.all([joined, pidOf(container), filled]);
    const supervisor = new FrameSocket(socket, fromSupervisor);
    // Before anything of the user's can run: no name leads to the host any more, and no word is left.
    door.hide();
    unlinkSync(join(folder, WORD));
    const { uid, gid, home, cwd, limits } = spec;
    // The engine has found its folders by their names: pid 1 looks whether they are those that were meant.
    const folders = process.platform === 'linux' ? [...spec.readable, ...outermost(spec.writable)] : [];
    const named = folders.flatMap(({ path, at, id }) => (id ? [{ path: at ?? path, id }] : []));
    const policy = { uid, gid, home, cwd, limits, folders: named, ...(proxy ? { proxy: proxySpec(INSIDE.door) } : {}) };
    supervisor.send(FrameType.open, 0, JSON.stringify({ policy }));
    undo.defer(() => supervisor.close());
    // Whoever made the image may have written a pid 1 that says nothing more.
    await untilAborted(supervisor.spoken, deadline, () => notReady(site.startTimeoutMs, deadline.reason));
    undo.move();
    stop.abort();
    return new ContainerWay(site, berth, { supervisor, pid, container, door, pipes, proxy });
  }

  /** Resolves when it was released; false where the engine may still have the container. */
  get gone(): Promise<boolean> {
    return this.#gone.promise;
  }

  async attach(kernel: number, purpose: Purpose, signal: AbortSignal): Promise<Connection> {
    const pair = await this.#pipes.take();
    const late = AbortSignal.timeout(this.#startTimeoutMs);
    const { word, connection } = this.#door.expect(AbortSignal.any([afterKnock(signal), late]));
    const { out, err, stdout, stderr } = pair;
    const request = { kernel, ...placeOf(purpose), out, err, word: word.toString('hex') };
    this.supervisor.send(FrameType.attach, 0, JSON.stringify(request));
    try {
      return { control: new FrameSocket(await connection, fromKernel), stdout, stderr };
    } catch (cause) {
      stdout.close();
      stderr.close();
      // Where it is held still it would go on to wait for a kernel that nobody wants any more.
      if (late.aborted) void this.release();
      const why = late.aborted ? `was not there after ${this.#startTimeoutMs / 1000} s` : 'ended before it was there';
      throw new CellaError('CONTAINER_FAILED', `A kernel in a container ${why}.`, { cause });
    } finally {
      pair.forget();
    }
  }

  /** Whoever made the image may have written a pid 1 that speaks, and never says that it is ready. */
  async answered<T>(answer: Promise<T>): Promise<T> {
    return await withTimeout(answer, this.#startTimeoutMs, () => {
      void this.release();
      return notReady(this.#startTimeoutMs, undefined);
    });
  }

  async fate(): Promise<ProcessExit> {
    try {
      // Its pid 1 is known to have ended a moment before the engine notices.
      if (!this.#released) await this.#container.ended(LONGEST_END_MS);
      const { OOMKilled, ExitCode } = await this.#container.state();
      if (OOMKilled) return { outOfMemory: true, signal: 'SIGKILL' };
      return { outOfMemory: false, lost: `its container has ended with code ${ExitCode}` };
    } catch {
      // Removed by somebody, held still, or the engine does not answer: it ends now, if it has not.
      await this.release();
      return { outOfMemory: false, lost: 'its container has ended' };
    }
  }

  /** The engine kills what is in a container when it removes it. */
  kill(): Promise<void> {
    return this.release();
  }

  release(): Promise<void> {
    this.#released ??= this.#release();
    return this.#released;
  }

  async #release(): Promise<void> {
    const late = delay(LONGEST_REMOVAL_MS, false, { ref: false });
    const removed = await Promise.race([this.#container.remove(), late]);
    this.supervisor.close();
    this.#door.close();
    this.proxy?.close();
    await rm(this.#berth.folder, { recursive: true, force: true });
    this.#gone.resolve(removed);
  }
}

/** What the container finds at its door, beside the socket and the pipes: who it is. */
function fillFolder(folder: string, { uid, gid, home }: EnvironmentSpec): void {
  // Calls of a few microseconds each: going through the thread pool would cost more than they do.
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'passwd'), `cella:x:${uid}:${gid}:cella:${home}:/bin/sh\n`);
  writeFileSync(join(folder, 'group'), `cella:x:${gid}:\n`);
  // Whatever the umask of this process is.
  chmodSync(folder, 0o755);
  for (const name of ['passwd', 'group']) chmodSync(join(folder, name), 0o644);
}

/** A program that is short may have ended before its connection, made earlier, has come through the door. */
function afterKnock(signal: AbortSignal): AbortSignal {
  const over = new AbortController();
  const wait = () => void setTimeout(() => over.abort(signal.reason), LONGEST_KNOCK_MS).unref();
  if (signal.aborted) wait();
  else signal.addEventListener('abort', wait, { once: true });
  return over.signal;
}

/** As the host sees it; 0 where the engine is too busy to say. */
async function pidOf(container: Container): Promise<number> {
  const told = container.state().then(
    ({ Pid }) => Pid,
    () => 0, // whoever starts it meets the reason
  );
  return await Promise.race([told, delay(LONGEST_LOOK_MS, 0, { ref: false })]);
}

async function isPaused(container: Container): Promise<boolean> {
  return await container.state().then(
    ({ Paused }) => Paused,
    () => false, // an engine that does not answer may be busy, as all else is
  );
}

/** Rejects with the reason where a container ends before its pid 1 has come to the door. */
async function endedEarly(container: Container, signal: AbortSignal): Promise<never> {
  await container.ended(LONGEST_START_MS, signal);
  const [{ ExitCode, OOMKilled }, words] = await Promise.all([container.state(), container.lastWords()]);
  const why = OOMKilled ? 'it was out of memory' : words || `exit code ${ExitCode}, and it said nothing`;
  throw new CellaError('CONTAINER_FAILED', `The container ended before its Python was ready: ${why}.`);
}

function notReady(timeoutMs: number, cause: unknown): CellaError {
  const message = `Python in the container was not ready after ${timeoutMs / 1000} s; a module of preload may hang.`;
  return new CellaError('CONTAINER_FAILED', message, { cause });
}
