/** Parts of Pyodide, Emscripten and WebAssembly that public types leave out, and the imports that Cella replaces. */

import type { PyodideAPI } from 'pyodide';
import { type SharedMemory, waitUntil } from '../shared-memory.ts';

interface Stream {
  readonly fd: number;
  flags: number;
  stream_ops: StreamOps;
}

export interface StreamOps {
  open?(stream: Stream): void;
  close?(stream: Stream): void;
  read?(stream: Stream, buffer: Int8Array, offset: number, length: number, position: number): number;
  write?(stream: Stream, buffer: Int8Array, offset: number, length: number, position: number): number;
  /** Which of POLLIN (1) and POLLOUT (4) are ready. */
  poll?(stream: Stream): number;
  [more: string]: unknown;
}

interface FileNode {
  node_ops: Record<string, (...args: unknown[]) => unknown>;
  stream_ops: StreamOps;
}

export interface FileSystem {
  mount(mount: unknown): FileNode;
  [more: string]: unknown;
}

interface EmscriptenFiles {
  readonly ErrnoError: new (errno: number) => Error;
  readonly filesystems: { readonly NODEFS: FileSystem };
  makedev(major: number, minor: number): number;
  registerDevice(device: number, ops: StreamOps): void;
  mkdev(path: string, mode: number, device: number): void;
  mkdirTree(path: string): void;
  writeFile(path: string, data: Uint8Array): void;
  mount(type: FileSystem, options: { readonly root: string }, at: string): void;
  open(path: string, flags: number): Stream;
  close(stream: Stream): void;
  getStream(fd: number): Stream | undefined;
  dupStream(stream: Stream, fd: number): Stream;
  chdir(path: string): void;
}

/** The module that Emscripten creates from its settings. */
export interface Emscripten {
  readonly FS: EmscriptenFiles;
  readonly HEAP16: Int16Array;
  readonly HEAP32: Int32Array;
  readonly HEAPU8: Uint8Array;
  readonly API: { fatal_error: (error: unknown) => never };
  growMemory(bytes: number): 1 | undefined;
  instantiateWasm(imports: Imports, done: (instance: WasmInstance, module: CompiledCode) => void): object;
}

export type Imports = Record<string, Record<string, (...args: number[]) => number>>;

/** Errno values of WASI, which Emscripten uses. */
export const Errno = { EAGAIN: 6, EINTR: 27, EROFS: 69, ENOSYS: 52 } as const;

/** Options of `loadPyodide` that its types leave out. */
export interface Insides {
  createPyodideModule: (settings: Emscripten) => Promise<Emscripten>;
}

export type Python = PyodideAPI;

/** Compiled code, which workers can share. */
export interface CompiledCode {
  readonly [Symbol.toStringTag]: string;
}

interface WasmInstance {
  readonly exports: object;
}

interface WasmNamespace {
  readonly Module: new (bytes: Uint8Array) => CompiledCode;
  compile(bytes: Uint8Array): Promise<CompiledCode>;
  instantiate: (code: CompiledCode | Uint8Array, imports: object) => Promise<unknown>;
}

export const wasm = (globalThis as unknown as { WebAssembly: WasmNamespace }).WebAssembly;

const PAGE = 65536;
const POLLERR = 8;
const POLLHUP = 16;
const POLLNVAL = 32;
const ALWAYS = POLLERR | POLLHUP | POLLNVAL;
/** Grows by more than requested, so that not every allocation has to grow the memory. */
const AHEAD = 1.2;

/** Replaces Pyodide imports that are wrong for a kernel: poll, memory growth, and `system`. */
export function adaptImports(
  imports: Imports,
  module: Emscripten,
  sharedMemory: SharedMemory,
  memoryBytes: number,
): void {
  const { env } = imports;
  if (!env) throw new Error('Pyodide does not import its environment as env');
  replace(env, '__syscall_poll', (list, count, timeoutMs) => poll(module, sharedMemory, list, count, timeoutMs));
  replace(env, 'emscripten_resize_heap', (bytes) => grow(module, sharedMemory, bytes >>> 0, memoryBytes));
  // Pyodide's own would start a shell on the host.
  replace(env, '_emscripten_system', () => -Errno.ENOSYS);
}

/** Throws if this version of Pyodide does not import that name. */
function replace(env: Imports[string], name: string, answer: (...args: [number, number, number]) => number): void {
  if (typeof env[name] !== 'function') throw new Error(`Pyodide does not import ${name}`);
  env[name] = answer as (...args: number[]) => number;
}

/** Like poll(2). Emscripten's own version never waits, and does not report closed descriptors. */
function poll(module: Emscripten, sharedMemory: SharedMemory, list: number, count: number, timeoutMs: number): number {
  let ready = 0;
  const pollOnce = (): boolean => {
    ready = 0;
    for (let at = list >>> 0, left = count; left > 0; left--, at += 8) {
      const wanted = (module.HEAP16[(at + 4) >>> 1] ?? 0) | ALWAYS;
      const found = flagsOf(module, module.HEAP32[at >>> 2] ?? -1) & wanted;
      module.HEAP16[(at + 6) >>> 1] = found;
      if (found !== 0) ready++;
    }
    return ready > 0;
  };
  if (timeoutMs === 0) {
    pollOnce();
    return ready;
  }
  return waitUntil(sharedMemory, pollOnce, timeoutMs) === 'signal' ? -Errno.EINTR : ready;
}

function flagsOf(module: Emscripten, fd: number): number {
  if (fd < 0) return 0;
  const stream = module.FS.getStream(fd);
  if (!stream) return POLLNVAL;
  return stream.stream_ops.poll ? stream.stream_ops.poll(stream) : 5;
}

function grow(module: Emscripten, sharedMemory: SharedMemory, bytes: number, most: number): number {
  if (bytes > most) {
    sharedMemory.add('refused', 1);
    return 0;
  }
  const wanted = Math.min(most, Math.max(bytes, module.HEAPU8.length * AHEAD));
  if (module.growMemory(Math.ceil(wanted / PAGE) * PAGE) === undefined) return 0;
  sharedMemory.set('heap', module.HEAPU8.length);
  return 1;
}
