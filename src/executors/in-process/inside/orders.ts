/** What a worker is told when it begins, and what it says beside what goes through the shared memory. */

import type { EnvironmentSpec } from '../../../sandbox/spec.ts';
import type { Code } from '../webassembly.ts';

interface Common {
  /** The folder of Pyodide's files, as a path that ends in a separator. */
  readonly pyodide: string;
  /** Its list of packages, which is empty: they would come from a network. */
  readonly lock: string;
  readonly wasm: Code;
  /** The kernel's sources, on the host. */
  readonly sources: string;
  readonly preload: readonly string[];
}

export interface SnapshotOrder extends Common {
  readonly kind: 'snapshot';
}

export interface KernelOrder extends Common {
  readonly kind: 'kernel';
  readonly snapshot: SharedArrayBuffer;
  readonly memory: SharedArrayBuffer;
  readonly memoryBytes: number;
  readonly env: Readonly<Record<string, string>>;
  readonly spec: EnvironmentSpec;
}

/** A program of the host's own that answers texts: no kernel. */
export interface ProgramOrder extends Common {
  readonly kind: 'program';
  readonly program: string;
}

export type Order = SnapshotOrder | KernelOrder | ProgramOrder;

/** null: there is something in the shared memory. */
export type Word =
  | null
  | { readonly snapshot: Uint8Array; readonly notPreloaded: readonly { name: string; reason: string }[] }
  | { readonly line: string }
  | { readonly exitCode: number }
  | { readonly problem: string };
