/** Pyodide in a worker thread, seen from the host: the installed package, the kernel in a worker, its signals and snapshots. */

import { readFile } from 'node:fs/promises';
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';
import { packageFile } from '../../interpreter/package-file.ts';
import type { KernelConnection } from '../../kernel/kernel-connection.ts';
import { signalName } from '../../lib/process-end.ts';
import { memoize } from '../../lib/single-flight.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type Frame, FrameDecoder, FrameType } from '../../protocol/kernel-frames.ts';
import { fromKernel, parseSnapshotTaken } from '../../protocol/kernel-payloads.ts';
import type { ProcessExit } from '../../protocol/process.ts';
import { FramePipe, SharedMemorySource } from './frame-pipe.ts';
import { type KernelTask, PROMPT_READ_BYTES, SharedMemory, type WorkerMessage } from './shared-memory.ts';
import { type CompiledCode, wasm } from './worker/emscripten.ts';

/** Compiled, the worker is JavaScript; from its source, Node strips the types. */
const [FOLDER, ENDING] = import.meta.url.endsWith('.ts') ? ['src', 'ts'] : ['dist', 'js'];
const WORKER_ENTRY = `${FOLDER}/environments/in-process/worker/pyodide-worker.${ENDING}`;
/** Deep data is pickled, compared and shown by functions that call themselves. */
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
/** So that a line which is printed in two parts comes as one. */
const OUTPUT_DELAY_MS = 2;
const KILLED: ProcessExit = { signal: 'SIGKILL' };

export function startWorker(task: object): Worker {
  // What Node keeps of compiled code, where it does, is a fifth of the start.
  const kept = getCompileCacheDir();
  // Nothing else of the host's environment or arguments is the worker's.
  return new Worker(packageFile(WORKER_ENTRY), {
    workerData: task,
    env: kept === undefined ? {} : { NODE_COMPILE_CACHE: dirname(kept) },
    // The worker reports what Pyodide writes about its own end.
    stdout: true,
    stderr: true,
    argv: [],
    execArgv: [],
    resourceLimits: { stackSizeMb: STACK_MB },
  });
}

/** One kernel's hold of the worker. */
interface AttachedKernel {
  readonly control: FramePipe;
  readonly stdout: SharedMemorySource;
  readonly stderr: SharedMemorySource;
  readonly exited: PromiseWithResolvers<ProcessExit>;
}

export class PyodideWorker {
  /** Snapshots of the namespace that this worker holds, by number. */
  readonly snapshots = new Set<number>();
  /** Resolves when the worker is gone, with how it ended. */
  readonly gone: Promise<ProcessExit>;
  readonly #worker: Worker;
  readonly #memory = new SharedMemory();
  readonly #signals = new SignalSender(this.#memory);
  readonly #decoder = new FrameDecoder(fromKernel);
  readonly #ready = Promise.withResolvers<void>();
  #kernel: AttachedKernel | undefined;
  /** Whether the kernel has been asked something, or has yet to say hello. */
  #busy = false;
  #dropped: number[] = [];
  #soon: NodeJS.Timeout | undefined;
  #ending: ProcessExit | undefined;
  #dead = false;

  constructor(task: Omit<KernelTask, 'memory'>) {
    const gone = Promise.withResolvers<ProcessExit>();
    this.gone = gone.promise;
    const whole: KernelTask = { ...task, memory: this.#memory.memory };
    this.#worker = startWorker(whole);
    this.#worker.on('message', (message: WorkerMessage) => this.#handleMessage(message));
    this.#worker.on('error', (error) => {
      this.#ending ??= this.#lost(error.message);
    });
    this.#worker.on('exit', () => {
      this.#dead = true;
      this.#signals.stop();
      clearTimeout(this.#soon);
      this.#ready.resolve();
      const exit = this.#ending ?? this.#lost('its worker ended');
      this.#detach(exit);
      gone.resolve(exit);
    });
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

  /** Attaches the first kernel, or one that goes back to a snapshot of this worker. */
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

  /** The agent's folder has another path from here on. */
  moveTo(path: string): void {
    this.#memory.moveTo(path);
  }

  /** Drops a snapshot; ends the worker if nothing else is left in it. */
  drop(snapshot: number): void {
    if (!this.snapshots.delete(snapshot)) return;
    if (this.#kernel) this.#kernel.control.send(FrameType.dropSnapshot, snapshot);
    else if (this.snapshots.size === 0) void this.close();
    else this.#dropped.push(snapshot);
  }

  async close(): Promise<void> {
    this.#ending ??= KILLED;
    await this.#worker.terminate();
    await this.gone;
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
    if (message === null) {
      this.#memory.set('told', 0);
      this.#signals.checkAlarm();
      this.#readPipes();
    } else if ('exitCode' in message) this.#ending ??= this.#ended(message.exitCode);
    else if ('problem' in message) this.#ending ??= this.#lost(message.problem);
  }

  #readPipes(): void {
    const kernel = this.#kernel;
    if (!kernel) {
      // Tasks of the kernel before may still write. That output is discarded.
      this.#memory.set('toldOfOutput', 0);
      for (const name of ['stdout', 'stderr'] as const) this.#memory.pipe(name).clear();
      this.#skipPartialFrame();
      this.#memory.wakeWorker();
      return;
    }
    const much =
      this.#memory.pipe('stdout').size > PROMPT_READ_BYTES || this.#memory.pipe('stderr').size > PROMPT_READ_BYTES;
    if (much || this.#memory.pipe('fromKernel').size > 0) this.#takeOutput();
    else this.#soon ??= setTimeout(() => this.#takeOutput(), OUTPUT_DELAY_MS);
    kernel.control.take();
  }

  /** Reads up to the end of a frame that the kernel before had begun. */
  #skipPartialFrame(): void {
    const rest = Buffer.allocUnsafe(this.#memory.pipe('fromKernel').size);
    this.#memory.pipe('fromKernel').read(rest);
    try {
      this.#decoder.push(rest);
    } catch (problem) {
      this.#ending ??= this.#lost(problem instanceof Error ? problem.message : String(problem));
      void this.close();
    }
  }

  #takeOutput(): void {
    clearTimeout(this.#soon);
    this.#soon = undefined;
    this.#memory.set('toldOfOutput', 0);
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
    // What a process would have been killed by.
    if (/abort|unreachable/i.test(why)) return { outOfMemory, signal: 'SIGABRT' };
    if (/out of bounds|null function|signature mismatch/.test(why)) return { outOfMemory, signal: 'SIGSEGV' };
    return { outOfMemory, signal: 'SIGKILL', environmentEnded: why };
  }
}

const SIGINT = 2;
const SIGALRM = 14;
/** A signal that comes before its execution has started, or while Python does not check, is lost, so it is sent again. */
const RESEND_MS = 10;

class SignalSender {
  readonly #memory: SharedMemory;
  #again: NodeJS.Timeout | undefined;
  #alarm: NodeJS.Timeout | undefined;

  constructor(sharedMemory: SharedMemory) {
    this.#memory = sharedMemory;
  }

  interrupt(execution: number): void {
    this.#memory.set('heard', 0);
    this.#memory.set('target', execution);
    clearInterval(this.#again);
    this.#again = setInterval(() => this.#ring(), RESEND_MS);
    this.#ring();
  }

  /** Looks whether the code has asked for an alarm: 1 for none any more, else milliseconds. */
  checkAlarm(): void {
    const wish = this.#memory.swap('alarm', 0);
    if (wish === 0) return;
    clearTimeout(this.#alarm);
    if (wish > 1) this.#alarm = setTimeout(() => this.#raise(SIGALRM), wish);
  }

  stop(): void {
    clearInterval(this.#again);
    clearTimeout(this.#alarm);
  }

  #ring(): void {
    if (this.#memory.get('heard') !== 0 || this.#memory.get('target') === 0) clearInterval(this.#again);
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
  /** Of Python. */
  readonly python: readonly [major: number, minor: number, patch: number];
  readonly lock: string;
  readonly wasm: CompiledCode;
}

export const findPyodide: () => Promise<Pyodide> = memoize(() =>
  readPyodide().catch((cause: unknown) => {
    const why = cause instanceof Error ? cause.message : String(cause);
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
