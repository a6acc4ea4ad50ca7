/**
 * What host and worker exchange: memory with four ring buffers, the interrupt slot and fields that wake either side; the
 * tasks that a worker starts with; and the messages that it sends beside the memory.
 */

import type { EnvironmentSpec } from '../../protocol/environment-spec.ts';
import type { CompiledCode } from './worker/emscripten.ts';

const HEADER_WORDS = 64;
const FIRST_PIPE_WORD = 16;
/** What each pipe holds; a power of two. */
const PIPE_BYTES = { toKernel: 1 << 20, fromKernel: 1 << 20, stdout: 1 << 19, stderr: 1 << 18 } as const;

/** The longest path that Linux knows. */
const PATH_BYTES = 4096;

/** From so many bytes on, output is read at once. */
export const PROMPT_READ_BYTES = 1 << 16;

type RingBufferName = keyof typeof PIPE_BYTES;

const Field = {
  /** The worker sleeps on it; it grows whenever the host has done something. */
  wake: 0,
  /** Whether the host was notified and has not looked yet. */
  told: 1,
  /** The same for output, which the host lets gather for a moment. */
  toldOfOutput: 9,
  /** The execution that an interrupt is for, and the one that has seen its interrupt. */
  target: 2,
  heard: 3,
  /** The number of the signal that waits to be seen by Python: its lowest byte. */
  signal: 4,
  /** Whether the host has bytes that have found no room yet. */
  crowded: 5,
  /** Bytes of the interpreter's memory, and how often more was asked for than it may have. */
  heap: 6,
  refused: 7,
  /** After how many milliseconds the code wants a SIGALRM; 0 for never. */
  alarm: 8,
  /** The number of the signal that the code has ended itself with. */
  killedBy: 10,
  /** How many bytes the path has that the agent's folder was moved to; 0 where it is where it was. */
  moved: 11,
} as const;

type FieldName = keyof typeof Field;

export class SharedMemory {
  readonly memory: SharedArrayBuffer;
  readonly #words: Int32Array;
  /** What Python looks at for a signal. */
  readonly signal: Uint8Array;
  readonly #pipes: Readonly<Record<RingBufferName, RingBuffer>>;
  readonly #path: Uint8Array;

  constructor(memory?: SharedArrayBuffer) {
    const sizes = Object.values(PIPE_BYTES).reduce((sum, size) => sum + size, 0);
    this.memory = memory ?? new SharedArrayBuffer(HEADER_WORDS * 4 + sizes + PATH_BYTES);
    this.#words = new Int32Array(this.memory, 0, HEADER_WORDS);
    this.signal = new Uint8Array(this.memory, Field.signal * 4, 1);
    let offset = HEADER_WORDS * 4;
    const pipe = (name: RingBufferName, index: number): RingBuffer => {
      const bytes = new Uint8Array(this.memory, offset, PIPE_BYTES[name]);
      offset += PIPE_BYTES[name];
      return new RingBuffer(this.#words, FIRST_PIPE_WORD + 2 * index, bytes);
    };
    this.#pipes = {
      toKernel: pipe('toKernel', 0),
      fromKernel: pipe('fromKernel', 1),
      stdout: pipe('stdout', 2),
      stderr: pipe('stderr', 3),
    };
    this.#path = new Uint8Array(this.memory, offset, PATH_BYTES);
  }

  pipe(name: RingBufferName): RingBuffer {
    return this.#pipes[name];
  }

  /** By the host, once: the agent's folder has another path from here on. */
  moveTo(path: string): void {
    const { read, written } = new TextEncoder().encodeInto(path, this.#path);
    if (read < path.length) throw new Error('the path of the agent’s folder is too long');
    this.set('moved', written);
  }

  /** By the worker: where the agent's folder was moved to. */
  movedTo(): string | undefined {
    const length = this.get('moved');
    // Memory that is shared cannot be decoded as it is.
    return length === 0 ? undefined : new TextDecoder().decode(this.#path.slice(0, length));
  }

  get(name: FieldName): number {
    return Atomics.load(this.#words, Field[name]) >>> 0;
  }

  set(name: FieldName, value: number): void {
    Atomics.store(this.#words, Field[name], value | 0);
  }

  /** Sets it, and gives what it was. */
  swap(name: FieldName, value: number): number {
    return Atomics.exchange(this.#words, Field[name], value | 0) >>> 0;
  }

  add(name: FieldName, value: number): void {
    Atomics.add(this.#words, Field[name], value | 0);
  }

  /** By the host: the worker looks again at whatever it waits for. */
  wakeWorker(): void {
    Atomics.add(this.#words, Field.wake, 1);
    Atomics.notify(this.#words, Field.wake);
  }

  /** By the worker: sleeps until the host has done something since `wake` had this value. */
  sleep(since: number, timeoutMs: number): void {
    Atomics.wait(this.#words, Field.wake, since | 0, timeoutMs);
  }
}

/** A ring of bytes with one writer and one reader. */
export class RingBuffer {
  readonly #words: Int32Array;
  readonly #written: number;
  readonly #read: number;
  readonly #bytes: Uint8Array;

  constructor(words: Int32Array, at: number, bytes: Uint8Array) {
    this.#words = words;
    this.#written = at;
    this.#read = at + 1;
    this.#bytes = bytes;
  }

  /** How many bytes wait to be read. */
  get size(): number {
    return (Atomics.load(this.#words, this.#written) - Atomics.load(this.#words, this.#read)) >>> 0;
  }

  /** Takes as much as there is room for, and gives how much that was. */
  write(data: Uint8Array): number {
    const capacity = this.#bytes.length;
    const count = Math.min(data.length, capacity - this.size);
    const at = Atomics.load(this.#words, this.#written) & (capacity - 1);
    const first = Math.min(count, capacity - at);
    this.#bytes.set(data.subarray(0, first), at);
    if (count > first) this.#bytes.set(data.subarray(first, count), 0);
    if (count > 0) Atomics.add(this.#words, this.#written, count);
    return count;
  }

  /** Fills `into` with as much as there is, and gives how much that was. */
  read(into: Uint8Array): number {
    const capacity = this.#bytes.length;
    const count = Math.min(into.length, this.size);
    const at = Atomics.load(this.#words, this.#read) & (capacity - 1);
    const first = Math.min(count, capacity - at);
    into.set(this.#bytes.subarray(at, at + first), 0);
    if (count > first) into.set(this.#bytes.subarray(0, count - first), first);
    if (count > 0) Atomics.add(this.#words, this.#read, count);
    return count;
  }

  /** Forgets what waits: by the reader alone. */
  clear(): void {
    Atomics.store(this.#words, this.#read, Atomics.load(this.#words, this.#written));
  }
}

type WaitResult = 'ready' | 'late' | 'signal';

/** A negative time is without end. */
export function waitUntil(sharedMemory: SharedMemory, ready: () => boolean, timeoutMs = -1): WaitResult {
  const until = timeoutMs < 0 ? Number.POSITIVE_INFINITY : performance.now() + timeoutMs;
  for (;;) {
    const since = sharedMemory.get('wake');
    if (ready()) return 'ready';
    if (sharedMemory.signal[0] !== 0) return 'signal';
    const left = until - performance.now();
    if (left <= 0) return 'late';
    sharedMemory.sleep(since, left);
  }
}

interface CommonTask {
  /** The folder of Pyodide's files, as a path that ends in a separator. */
  readonly pyodide: string;
  /** Its list of packages, which is empty: they would come from a network. */
  readonly lock: string;
  readonly wasm: CompiledCode;
  /** The kernel's sources, on the host. */
  readonly sources: string;
  readonly preload: readonly string[];
}

export interface MemoryImageTask extends CommonTask {
  readonly kind: 'snapshot';
}

export interface KernelTask extends CommonTask {
  readonly kind: 'kernel';
  readonly snapshot: SharedArrayBuffer;
  readonly memory: SharedArrayBuffer;
  readonly memoryBytes: number;
  readonly env: Readonly<Record<string, string>>;
  readonly spec: EnvironmentSpec;
}

/** A program of the host's own that answers texts: no kernel. */
export interface HelperTask extends CommonTask {
  readonly kind: 'program';
  readonly program: string;
}

export type WorkerTask = MemoryImageTask | KernelTask | HelperTask;

/** null: there is something in the shared memory. */
export type WorkerMessage =
  | null
  | { readonly snapshot: Uint8Array; readonly notPreloaded: readonly { name: string; reason: string }[] }
  | { readonly line: string }
  | { readonly exitCode: number }
  | { readonly problem: string };
