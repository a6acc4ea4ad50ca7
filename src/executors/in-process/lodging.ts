/** One worker thread with one interpreter: the kernel that lives in it now, and the moments of it that are kept there. */

import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { packageFile } from '../../interpreter/package-file.ts';
import type { KernelConnection, ProcessExit } from '../../kernel/kernel-connection.ts';
import { type Frame, FrameDecoder, FrameType } from '../../protocol/frames.ts';
import { fromKernel, parseTwinned } from '../../protocol/kernel.ts';
import { signalName } from '../signals.ts';
import { FramePipe } from './frame-pipe.ts';
import type { KernelOrder, Word } from './inside/orders.ts';
import { Ringer } from './ringer.ts';
import { SharedPipeSource } from './shared-pipe-source.ts';
import { MUCH, Wires } from './wires.ts';

/** Compiled, the worker is JavaScript; from its source, Node strips the types. */
const [FOLDER, ENDING] = import.meta.url.endsWith('.ts') ? ['src', 'ts'] : ['dist', 'js'];
const ENTRY = `${FOLDER}/executors/in-process/inside/worker.${ENDING}`;
/** Deep data is pickled, compared and shown by functions that call themselves. */
const STACK_MB = 64;
const ASKS: ReadonlySet<number> = new Set([
  FrameType.execute,
  FrameType.request,
  FrameType.twin,
  FrameType.save,
  FrameType.load,
]);
const ANSWERS: ReadonlySet<number> = new Set([
  FrameType.result,
  FrameType.answer,
  FrameType.twinned,
  FrameType.saved,
  FrameType.loaded,
]);
/** So that a line which is printed in two parts comes as one. */
const GATHER_MS = 2;
const KILLED: ProcessExit = { signal: 'SIGKILL', outOfMemory: false };

export function startWorker(order: object): Worker {
  // What Node keeps of compiled code, where it does, is a fifth of the start.
  const kept = getCompileCacheDir();
  // Nothing else of the host's environment or arguments is the worker's.
  return new Worker(packageFile(ENTRY), {
    workerData: order,
    env: kept === undefined ? {} : { NODE_COMPILE_CACHE: dirname(kept) },
    // What Pyodide says of its own end is told by the worker.
    stdout: true,
    stderr: true,
    argv: [],
    execArgv: [],
    resourceLimits: { stackSizeMb: STACK_MB },
  });
}

/** One kernel's hold of the worker. */
interface Tenancy {
  readonly control: FramePipe;
  readonly stdout: SharedPipeSource;
  readonly stderr: SharedPipeSource;
  readonly exited: PromiseWithResolvers<ProcessExit>;
}

export class Lodging {
  /** Moments of the names, by number. */
  readonly twins = new Set<number>();
  /** Resolves when the worker is gone, with how it ended. */
  readonly gone: Promise<ProcessExit>;
  readonly #worker: Worker;
  readonly #wires = new Wires();
  readonly #ringer = new Ringer(this.#wires);
  readonly #decoder = new FrameDecoder(fromKernel);
  readonly #spoken = Promise.withResolvers<void>();
  #tenancy: Tenancy | undefined;
  /** Whether the kernel has been asked something, or has yet to say hello. */
  #busy = false;
  #dropped: number[] = [];
  #soon: NodeJS.Timeout | undefined;
  #ending: ProcessExit | undefined;
  #dead = false;

  constructor(order: Omit<KernelOrder, 'memory'>) {
    const gone = Promise.withResolvers<ProcessExit>();
    this.gone = gone.promise;
    const whole: KernelOrder = { ...order, memory: this.#wires.memory };
    this.#worker = startWorker(whole);
    this.#worker.on('message', (word: Word) => this.#hear(word));
    this.#worker.on('error', (error) => {
      this.#ending ??= this.#lost(error.message);
    });
    this.#worker.on('exit', () => {
      this.#dead = true;
      this.#ringer.stop();
      clearTimeout(this.#soon);
      this.#spoken.resolve();
      const exit = this.#ending ?? this.#lost('its worker ended');
      this.#leave(exit);
      gone.resolve(exit);
    });
  }

  get alive(): boolean {
    return !this.#dead && this.#ending === undefined;
  }

  /** Whether a kernel holds it. */
  get taken(): boolean {
    return this.#tenancy !== undefined;
  }

  /** Bytes of the interpreter's memory. */
  get bytes(): number {
    return this.#wires.get('heap');
  }

  /** Resolves when a kernel has said hello, or none will. */
  get spoken(): Promise<void> {
    return this.#spoken.promise;
  }

  /** A kernel takes hold of it: the first one, or one that goes back to a moment that is kept here. */
  enter(from?: { readonly twin: number; readonly keep: boolean }): KernelConnection {
    const wires = this.#wires;
    const wake = () => wires.wakeWorker();
    wires.pipe('stdout').clear();
    wires.pipe('stderr').clear();
    const tenancy: Tenancy = {
      control: new FramePipe(wires, this.#decoder, {
        sent: (type, id) => this.#sent(type, id),
        received: (frame) => this.#received(frame),
      }),
      stdout: new SharedPipeSource(wires.pipe('stdout'), wake),
      stderr: new SharedPipeSource(wires.pipe('stderr'), wake),
      exited: Promise.withResolvers<ProcessExit>(),
    };
    this.#tenancy = tenancy;
    this.#busy = true;
    for (const twin of this.#dropped.splice(0)) tenancy.control.send(FrameType.drop, twin);
    if (from) {
      if (!from.keep) this.twins.delete(from.twin);
      tenancy.control.send(FrameType.attach, from.twin, from.keep ? 'keep' : '');
    }
    tenancy.control.take();
    return {
      control: tenancy.control,
      stdout: tenancy.stdout,
      stderr: tenancy.stderr,
      exited: tenancy.exited.promise,
      interrupt: (execution) => this.#ringer.interrupt(execution),
      kill: () => this.#kill(tenancy),
    };
  }

  /** The agent's folder has another path from here on. */
  moveTo(path: string): void {
    this.#wires.moveTo(path);
  }

  /** Lets go of a moment, and of the worker where nothing else is left in it. */
  drop(twin: number): void {
    if (!this.twins.delete(twin)) return;
    if (this.#tenancy) this.#tenancy.control.send(FrameType.drop, twin);
    else if (this.twins.size === 0) void this.close();
    else this.#dropped.push(twin);
  }

  async close(): Promise<void> {
    this.#ending ??= KILLED;
    await this.#worker.terminate();
    await this.gone;
  }

  /** A kernel that has nothing to do can be left as it is, for the moments that are kept beside it; any other ends with its worker. */
  #kill(tenancy: Tenancy): void {
    if (this.#tenancy !== tenancy) return;
    if (this.#busy || this.twins.size === 0) void this.close();
    else this.#leave(KILLED);
  }

  #leave(exit: ProcessExit): void {
    const tenancy = this.#tenancy;
    if (!tenancy) return;
    this.#tenancy = undefined;
    tenancy.control.take();
    tenancy.stdout.end();
    tenancy.stderr.end();
    tenancy.exited.resolve(exit);
    tenancy.control.end();
  }

  #hear(word: Word): void {
    if (word === null) {
      this.#wires.set('told', 0);
      this.#ringer.look();
      this.#look();
    } else if ('exitCode' in word) this.#ending ??= this.#ended(word.exitCode);
    else if ('problem' in word) this.#ending ??= this.#lost(word.problem);
  }

  #look(): void {
    const tenancy = this.#tenancy;
    if (!tenancy) {
      // Tasks of a kernel that is no more may write on: nobody reads that.
      this.#wires.set('toldOfOutput', 0);
      for (const name of ['stdout', 'stderr'] as const) this.#wires.pipe(name).clear();
      this.#passOver();
      this.#wires.wakeWorker();
      return;
    }
    const much = this.#wires.pipe('stdout').size > MUCH || this.#wires.pipe('stderr').size > MUCH;
    if (much || this.#wires.pipe('fromKernel').size > 0) this.#takeOutput();
    else this.#soon ??= setTimeout(() => this.#takeOutput(), GATHER_MS);
    tenancy.control.take();
  }

  /** Up to the end of a frame that was begun. Where the code has written there itself, nobody finds that any more. */
  #passOver(): void {
    const rest = Buffer.allocUnsafe(this.#wires.pipe('fromKernel').size);
    this.#wires.pipe('fromKernel').read(rest);
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
    this.#wires.set('toldOfOutput', 0);
    this.#tenancy?.stdout.take();
    this.#tenancy?.stderr.take();
  }

  #sent(type: number, id: number): void {
    if (ASKS.has(type)) this.#busy = true;
    if (type === FrameType.twin) this.twins.add(id);
  }

  #received(frame: Frame): void {
    if (ANSWERS.has(frame.type)) this.#busy = false;
    if (frame.type === FrameType.hello) {
      this.#busy = false;
      this.#spoken.resolve();
    }
    if (frame.type === FrameType.twinned && parseTwinned(frame.payload).unsafe !== undefined)
      this.twins.delete(frame.id);
  }

  #ended(exitCode: number): ProcessExit {
    const signal = this.#wires.get('killedBy');
    return { outOfMemory: false, ...(signal > 0 ? { signal: signalName(signal) } : { exitCode }) };
  }

  #lost(why: string): ProcessExit {
    const outOfMemory = this.#wires.get('refused') > 0;
    // What a process would have been killed by.
    if (/abort|unreachable/i.test(why)) return { outOfMemory, signal: 'SIGABRT' };
    if (/out of bounds|null function|signature mismatch/.test(why)) return { outOfMemory, signal: 'SIGSEGV' };
    return { outOfMemory, lost: why };
  }
}
