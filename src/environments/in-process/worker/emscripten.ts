/** Types of the parts of Pyodide, Emscripten and WebAssembly that public types leave out. */

import type { PyodideAPI } from 'pyodide';

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
  /** Which of POLLIN (1) and POLLOUT (4) hold now. */
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

/** What Emscripten makes of the settings it is given: the module itself. */
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
