/**
 * What host and worker exchange: memory with four ring buffers, the interrupt slot and fields that wake either side; the tasks
 * that a worker starts with; and the messages that it sends outside of the memory.
 */

import type { EnvironmentSpec } from '../../protocol/environment-spec.ts';
import type { CompiledCode } from './worker/emscripten.ts';

const HEADER_WORDS = 64;
const FIRST_PIPE_WORD = 16;
/** The size of each pipe, a power of two. */
const PIPE_BYTES = { toKernel: 1 << 20, fromKernel: 1 << 20, stdout: 1 << 19, stderr: 1 << 18 } as const;

/** The longest path that Linux supports. */
const PATH_BYTES = 4096;

/** Output is read at once if at least this many bytes are waiting. */
export const READ_AT_ONCE_BYTES = 1 << 16;

type RingBufferName = keyof typeof PIPE_BYTES;

const Field = {
  /** The worker sleeps on this field. The host increments it whenever it has done something. */
  wake: 0,
  /** Whether the host was notified and has not checked yet. */
  notified: 1,
  /** The same for output, which the host lets collect for a moment. */
  outputNotified: 9,
  /** The execution that an interrupt is for, and the last one that saw its interrupt. */
  target: 2,
  seen: 3,
  /** The number of the signal that Python has not seen yet, in the lowest byte. */
  signal: 4,
  /** Whether the host has bytes that do not fit yet. */
  crowded: 5,
  /** The interpreter's memory in bytes, and how often it asked for more than its limit. */
  heap: 6,
  refused: 7,
  /** The milliseconds until the code's SIGALRM; 0 for none. */
  alarm: 8,
  /** The number of the signal with which the code ended itself. */
  killedBy: 10,
  /** The length in bytes of the new path of the key's folder; 0 if the folder was not moved. */
  moved: 11,
} as const;

type FieldName = keyof typeof Field;

export class SharedMemory {
  readonly memory: SharedArrayBuffer;
  readonly #words: Int32Array;
  /** The memory that Python checks for a signal. */
  readonly signal: Uint8Array;
  readonly #pipes: Readonly<Record<RingBufferName, SharedRingBuffer>>;
  readonly #path: Uint8Array;

  constructor(memory?: SharedArrayBuffer) {
    const sizes = Object.values(PIPE_BYTES).reduce((sum, size) => sum + size, 0);
    this.memory = memory ?? new SharedArrayBuffer(HEADER_WORDS * 4 + sizes + PATH_BYTES);
    this.#words = new Int32Array(this.memory, 0, HEADER_WORDS);
    this.signal = new Uint8Array(this.memory, Field.signal * 4, 1);
    let offset = HEADER_WORDS * 4;
    const pipe = (name: RingBufferName, index: number): SharedRingBuffer => {
      const bytes = new Uint8Array(this.memory, offset, PIPE_BYTES[name]);
      offset += PIPE_BYTES[name];
      return new SharedRingBuffer(this.#words, FIRST_PIPE_WORD + 2 * index, bytes);
    };
    this.#pipes = {
      toKernel: pipe('toKernel', 0),
      fromKernel: pipe('fromKernel', 1),
      stdout: pipe('stdout', 2),
      stderr: pipe('stderr', 3),
    };
    this.#path = new Uint8Array(this.memory, offset, PATH_BYTES);
  }

  pipe(name: RingBufferName): SharedRingBuffer {
    return this.#pipes[name];
  }

  /** Called by the host, once: sets the new path of the key's folder. */
  moveTo(path: string): void {
    const { read, written } = new TextEncoder().encodeInto(path, this.#path);
    if (read < path.length) throw new Error('the path of the key’s folder is too long');
    this.set('moved', written);
  }

  /** Called by the worker: the new path of the key's folder. */
  movedTo(): string | undefined {
    const length = this.get('moved');
    // TextDecoder does not accept shared memory.
    return length === 0 ? undefined : new TextDecoder().decode(this.#path.slice(0, length));
  }

  get(name: FieldName): number {
    return Atomics.load(this.#words, Field[name]) >>> 0;
  }

  set(name: FieldName, value: number): void {
    Atomics.store(this.#words, Field[name], value | 0);
  }

  /** Sets the field and returns its previous value. */
  swap(name: FieldName, value: number): number {
    return Atomics.exchange(this.#words, Field[name], value | 0) >>> 0;
  }

  add(name: FieldName, value: number): void {
    Atomics.add(this.#words, Field[name], value | 0);
  }

  /** Called by the host: the worker checks again for whatever it waits for. */
  wakeWorker(): void {
    Atomics.add(this.#words, Field.wake, 1);
    Atomics.notify(this.#words, Field.wake);
  }

  /** Called by the worker: sleeps until the host changes `wake` from `since`. */
  sleep(since: number, timeoutMs: number): void {
    Atomics.wait(this.#words, Field.wake, since | 0, timeoutMs);
  }
}

/** A ring of bytes with one writer and one reader. */
export class SharedRingBuffer {
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

  /** The number of unread bytes. */
  get size(): number {
    return (Atomics.load(this.#words, this.#written) - Atomics.load(this.#words, this.#read)) >>> 0;
  }

  /** Writes as many bytes as fit and returns their number. */
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

  /** Fills `into` with the available bytes and returns their number. */
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

  /** Discards the unread bytes. Only the reader may call it. */
  clear(): void {
    Atomics.store(this.#words, this.#read, Atomics.load(this.#words, this.#written));
  }
}

type WaitResult = 'ready' | 'late' | 'signal';

/** A negative timeout waits without limit. */
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
  /** Pyodide's package list. It is empty, because packages would come from a network. */
  readonly lock: string;
  readonly wasm: CompiledCode;
  /** The folder of the kernel's sources, on the host. */
  readonly sources: string;
  readonly preload: readonly string[];
}

export interface MemoryImageTask extends CommonTask {
  readonly kind: 'memory-image';
}

export interface KernelTask extends CommonTask {
  readonly kind: 'kernel';
  readonly memoryImage: SharedArrayBuffer;
  readonly memory: SharedArrayBuffer;
  readonly memoryBytes: number;
  readonly env: Readonly<Record<string, string>>;
  readonly spec: EnvironmentSpec;
}

/** A Cella program that answers text requests instead of running a kernel. */
export interface HelperTask extends CommonTask {
  readonly kind: 'program';
  readonly program: string;
}

export type WorkerTask = MemoryImageTask | KernelTask | HelperTask;

/** null: there is data in the shared memory. */
export type WorkerMessage =
  | null
  | { readonly memoryImage: Uint8Array; readonly notPreloaded: readonly { name: string; reason: string }[] }
  | { readonly line: string }
  | { readonly exitCode: number }
  | { readonly problem: string };
