/** The tasks that a worker starts with, and the messages that it sends beside the shared memory. */

import type { EnvironmentSpec } from '../../../protocol/environment-spec.ts';
import type { CompiledCode } from './emscripten.ts';

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
