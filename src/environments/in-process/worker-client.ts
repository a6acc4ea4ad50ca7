/**
 * Pyodide in a worker thread, as the host sees it: the installed package, the kernel in a worker, its signals and snapshots.
 */

import { readFile } from 'node:fs/promises';
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';
import { packageFile } from '../../interpreter/package-file.ts';
import type { KernelConnection } from '../../kernel/kernel-connection.ts';
import { endsAfterKill, leaveThread, signalName } from '../../lib/process-end.ts';
import { memoize } from '../../lib/single-flight.ts';
import { messageOf } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type Frame, FrameDecoder, FrameType } from '../../protocol/kernel-frames.ts';
import { fromKernel, parseSnapshotTaken } from '../../protocol/kernel-payloads.ts';
import type { ProcessExit } from '../../protocol/process.ts';
import { FramePipe, SharedMemorySource } from './frame-pipe.ts';
import { type KernelTask, READ_AT_ONCE_BYTES, SharedMemory, type WorkerMessage } from './shared-memory.ts';
import { type CompiledCode, wasm } from './worker/emscripten.ts';

/** The compiled worker is JavaScript. From source, Node strips the types. */
const [FOLDER, ENDING] = import.meta.url.endsWith('.ts') ? ['src', 'ts'] : ['dist', 'js'];
const WORKER_ENTRY = `${FOLDER}/environments/in-process/worker/pyodide-worker.${ENDING}`;
/** Python pickles, compares and shows deep data with recursive functions. */
const STACK_MB = 64;
const REQUEST_FRAMES: ReadonlySet<number> = new Set([
  FrameType.execute,
  FrameType.request,
  FrameType.snapshot,
  FrameType.save,
  FrameType.load,
]);
const REPLY_FRAMES: ReadonlySet<number> = new Set([
  FrameType.result,
  FrameType.answer,
  FrameType.snapshotTaken,
  FrameType.saved,
  FrameType.loaded,
]);
/** Collects the parts of a line that is printed in several writes. */
const OUTPUT_DELAY_MS = 2;
const KILLED: ProcessExit = { signal: 'SIGKILL' };

export function startWorker(task: object): Worker {
  // Node's compile cache, if enabled, saves a fifth of the start.
  const kept = getCompileCacheDir();
  // The worker gets nothing else of the host's environment or arguments.
  return new Worker(packageFile(WORKER_ENTRY), {
    workerData: task,
    env: kept === undefined ? {} : { NODE_COMPILE_CACHE: dirname(kept) },
    // Cella reports what Pyodide writes when it ends.
    stdout: true,
    stderr: true,
    argv: [],
    execArgv: [],
    resourceLimits: { stackSizeMb: STACK_MB },
  });
}

/** A thread that waits for the system, such as for a hanging file system, may not end. It is then abandoned. */
export async function terminateWorker(worker: Worker): Promise<void> {
  const ended = worker.terminate();
  if (await endsAfterKill(ended, 'A worker thread of the in-process executor')) return;
  worker.unref();
  leaveThread(ended);
}

/** One kernel's use of the worker. */
interface AttachedKernel {
  readonly control: FramePipe;
  readonly stdout: SharedMemorySource;
  readonly stderr: SharedMemorySource;
  readonly exited: PromiseWithResolvers<ProcessExit>;
}

export class PyodideWorkerClient {
  /** Numbers of the namespace snapshots that this worker holds. */
  readonly snapshots = new Set<number>();
  /** Resolves with the reason when the worker has ended. */
  readonly gone: Promise<ProcessExit>;
  readonly #worker: Worker;
  readonly #memory = new SharedMemory();
  readonly #signals = new SignalSender(this.#memory);
  readonly #decoder = new FrameDecoder(fromKernel);
  readonly #ready = Promise.withResolvers<void>();
  readonly #gone = Promise.withResolvers<ProcessExit>();
  #termination: Promise<void> | undefined;
  #kernel: AttachedKernel | undefined;
  /** Whether the kernel is handling a request, or has not said hello yet. */
  #busy = false;
  #dropped: number[] = [];
  #soon: NodeJS.Timeout | undefined;
  #ending: ProcessExit | undefined;
  #dead = false;

  constructor(task: Omit<KernelTask, 'memory'>) {
    this.gone = this.#gone.promise;
    const whole: KernelTask = { ...task, memory: this.#memory.memory };
    this.#worker = startWorker(whole);
    this.#worker.on('message', (message: WorkerMessage) => this.#handleMessage(message));
    this.#worker.on('error', (error) => {
      this.#ending ??= this.#lost(error.message);
    });
    this.#worker.on('exit', () => this.#finish());
  }

  get alive(): boolean {
    return !this.#dead && this.#ending === undefined;
  }

  /** Whether a kernel is attached. */
  get isAttached(): boolean {
    return this.#kernel !== undefined;
  }

  /** Bytes of the interpreter's memory. */
  get bytes(): number {
    return this.#memory.get('heap');
  }

  /** Resolves when a kernel has said hello, or none will. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Attaches the first kernel, or one that returns to a snapshot of this worker. */
  attach(from?: { readonly snapshot: number; readonly keep: boolean }): KernelConnection {
    const sharedMemory = this.#memory;
    const wake = () => sharedMemory.wakeWorker();
    sharedMemory.pipe('stdout').clear();
    sharedMemory.pipe('stderr').clear();
    const kernel: AttachedKernel = {
      control: new FramePipe(sharedMemory, this.#decoder, {
        sent: (type, id) => this.#sent(type, id),
        received: (frame) => this.#received(frame),
      }),
      stdout: new SharedMemorySource(sharedMemory.pipe('stdout'), wake),
      stderr: new SharedMemorySource(sharedMemory.pipe('stderr'), wake),
      exited: Promise.withResolvers<ProcessExit>(),
    };
    this.#kernel = kernel;
    this.#busy = true;
    for (const snapshot of this.#dropped.splice(0)) kernel.control.send(FrameType.dropSnapshot, snapshot);
    if (from) {
      if (!from.keep) this.snapshots.delete(from.snapshot);
      kernel.control.send(FrameType.attach, from.snapshot, from.keep ? 'keep' : '');
    }
    kernel.control.take();
    return {
      control: kernel.control,
      stdout: kernel.stdout,
      stderr: kernel.stderr,
      exited: kernel.exited.promise,
      interrupt: (execution) => this.#signals.interrupt(execution),
      kill: () => this.#kill(kernel),
    };
  }

  /** Sets the new path of the key's folder. */
  moveTo(path: string): void {
    this.#memory.moveTo(path);
  }

  /** Drops a snapshot. Ends the worker if it holds nothing else. */
  drop(snapshot: number): void {
    if (!this.snapshots.delete(snapshot)) return;
    if (this.#kernel) this.#kernel.control.send(FrameType.dropSnapshot, snapshot);
    else if (this.snapshots.size === 0) void this.close();
    else this.#dropped.push(snapshot);
  }

  async close(): Promise<void> {
    this.#ending ??= KILLED;
    this.#termination ??= terminateWorker(this.#worker);
    await this.#termination;
    this.#finish();
  }

  /** Called when the thread has ended or is abandoned. */
  #finish(): void {
    if (this.#dead) return;
    this.#dead = true;
    this.#signals.stop();
    clearTimeout(this.#soon);
    this.#ready.resolve();
    const exit = this.#ending ?? this.#lost('its worker ended');
    this.#detach(exit);
    this.#gone.resolve(exit);
  }

  /** An idle kernel is only detached if its worker holds snapshots; any other kernel ends with its worker. */
  #kill(kernel: AttachedKernel): void {
    if (this.#kernel !== kernel) return;
    if (this.#busy || this.snapshots.size === 0) void this.close();
    else this.#detach(KILLED);
  }

  #detach(exit: ProcessExit): void {
    const kernel = this.#kernel;
    if (!kernel) return;
    this.#kernel = undefined;
    kernel.control.take();
    kernel.stdout.end();
    kernel.stderr.end();
    kernel.exited.resolve(exit);
    kernel.control.end();
  }

  #handleMessage(message: WorkerMessage): void {
    if (this.#dead) return;
    if (message === null) {
      this.#memory.set('notified', 0);
      this.#signals.checkAlarm();
      this.#readPipes();
    } else if ('exitCode' in message) this.#ending ??= this.#ended(message.exitCode);
    else if ('problem' in message) this.#ending ??= this.#lost(message.problem);
  }

  #readPipes(): void {
    const kernel = this.#kernel;
    if (!kernel) {
      // Tasks of the previous kernel may still write. That output is discarded.
      this.#memory.set('outputNotified', 0);
      for (const name of ['stdout', 'stderr'] as const) this.#memory.pipe(name).clear();
      this.#skipPartialFrame();
      this.#memory.wakeWorker();
      return;
    }
    const much =
      this.#memory.pipe('stdout').size > READ_AT_ONCE_BYTES || this.#memory.pipe('stderr').size > READ_AT_ONCE_BYTES;
    if (much || this.#memory.pipe('fromKernel').size > 0) this.#takeOutput();
    else this.#soon ??= setTimeout(() => this.#takeOutput(), OUTPUT_DELAY_MS);
    kernel.control.take();
  }

  /** Reads up to the end of a frame that the previous kernel began. */
  #skipPartialFrame(): void {
    const rest = Buffer.allocUnsafe(this.#memory.pipe('fromKernel').size);
    this.#memory.pipe('fromKernel').read(rest);
    try {
      this.#decoder.push(rest);
    } catch (problem) {
      this.#ending ??= this.#lost(messageOf(problem));
      void this.close();
    }
  }

  #takeOutput(): void {
    clearTimeout(this.#soon);
    this.#soon = undefined;
    this.#memory.set('outputNotified', 0);
    this.#kernel?.stdout.take();
    this.#kernel?.stderr.take();
  }

  #sent(type: number, id: number): void {
    if (REQUEST_FRAMES.has(type)) this.#busy = true;
    if (type === FrameType.snapshot) this.snapshots.add(id);
  }

  #received(frame: Frame): void {
    if (REPLY_FRAMES.has(frame.type)) this.#busy = false;
    if (frame.type === FrameType.hello) {
      this.#busy = false;
      this.#ready.resolve();
    }
    if (frame.type === FrameType.snapshotTaken && parseSnapshotTaken(frame.payload).unsafe !== undefined)
      this.snapshots.delete(frame.id);
  }

  #ended(code: number): ProcessExit {
    const signal = this.#memory.get('killedBy');
    return signal > 0 ? { signal: signalName(signal) } : { code };
  }

  #lost(why: string): ProcessExit {
    const outOfMemory = this.#memory.get('refused') > 0;
    // The signal that would have killed a process.
    if (/abort|unreachable/i.test(why)) return { outOfMemory, signal: 'SIGABRT' };
    if (/out of bounds|null function|signature mismatch/.test(why)) return { outOfMemory, signal: 'SIGSEGV' };
    return { outOfMemory, signal: 'SIGKILL', environmentEnded: why };
  }
}

const SIGINT = 2;
const SIGALRM = 14;
/** A signal is lost if it arrives before its execution starts or while Python does not check, so it is sent again. */
const RESEND_MS = 10;

class SignalSender {
  readonly #memory: SharedMemory;
  #again: NodeJS.Timeout | undefined;
  #alarm: NodeJS.Timeout | undefined;

  constructor(sharedMemory: SharedMemory) {
    this.#memory = sharedMemory;
  }

  interrupt(execution: number): void {
    this.#memory.set('seen', 0);
    this.#memory.set('target', execution);
    clearInterval(this.#again);
    this.#again = setInterval(() => this.#ring(), RESEND_MS);
    this.#ring();
  }

  /** Checks whether the code has requested an alarm, in milliseconds; 1 cancels it. */
  checkAlarm(): void {
    const delayMs = this.#memory.swap('alarm', 0);
    if (delayMs === 0) return;
    clearTimeout(this.#alarm);
    if (delayMs > 1) this.#alarm = setTimeout(() => this.#raise(SIGALRM), delayMs);
  }

  stop(): void {
    clearInterval(this.#again);
    clearTimeout(this.#alarm);
  }

  #ring(): void {
    if (this.#memory.get('seen') !== 0 || this.#memory.get('target') === 0) clearInterval(this.#again);
    else this.#raise(SIGINT);
  }

  #raise(signal: number): void {
    this.#memory.signal[0] = signal;
    this.#memory.wakeWorker();
  }
}

const Lock = z.object({ info: z.looseObject({ python: z.string(), abi_version: z.string() }) });

/** The installed pyodide package. Its code is compiled once for all workers. */
export interface Pyodide {
  /** The folder of its files, as a path that ends in a separator. */
  readonly folder: string;
  readonly version: string;
  /** The Python version. */
  readonly python: readonly [major: number, minor: number, patch: number];
  readonly lock: string;
  readonly wasm: CompiledCode;
}

export const findPyodide: () => Promise<Pyodide> = memoize(() =>
  readPyodide().catch((cause: unknown) => {
    const why = messageOf(cause);
    throw new CellaError('TEMPLATE_FAILED', `The package pyodide cannot be used: ${why}. Run: npm ci`, { cause });
  }),
);

async function readPyodide(): Promise<Pyodide> {
  const folder = fileURLToPath(new URL('./', import.meta.resolve('pyodide')));
  const [about, packages, code] = await Promise.all([
    readFile(`${folder}package.json`, 'utf8'),
    readFile(`${folder}pyodide-lock.json`, 'utf8'),
    readFile(`${folder}pyodide.asm.wasm`),
  ]);
  const { version } = z.object({ version: z.string() }).parse(JSON.parse(about));
  const { info } = Lock.parse(JSON.parse(packages));
  const [major = 3, minor = 0, patch = 0] = info.python.split('.').map(Number);
  const lock = JSON.stringify({ info, packages: {} });
  return { folder, version, python: [major, minor, patch], lock, wasm: await wasm.compile(code) };
}
