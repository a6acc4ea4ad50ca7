/** The ports for running kernels: Executor opens kernel hosts; a KernelHost starts kernels, programs and terminals. */

import type { ByteSource, KernelConnection } from '../kernel/kernel-connection.ts';
import type { Capabilities } from '../protocol/enums.ts';
import type { EnvironmentSpec } from '../protocol/environment-spec.ts';
import type { ProgramSpec } from '../protocol/host-payloads.ts';
import type { Interpreter } from '../protocol/interpreter.ts';
import type { ProcessExit } from '../protocol/process.ts';
import type { TerminalSize } from '../protocol/workspace-models.ts';
import type { DeniedAttempt } from '../sandbox/proxy/allow-list.ts';
import type { SparePool } from './supervisor/spare-pool.ts';

export interface StartKernelOptions {
  /** Variables in addition to those of every kernel. A kernel that starts from a snapshot keeps its own. */
  readonly env: Readonly<Record<string, string>>;
  /** The folder of packages that it may import, as a path inside the sandbox. */
  readonly packages?: string | undefined;
  /** A snapshot to start from, instead of an empty kernel. `keep`: the snapshot stays and can be used again. */
  readonly from?: { readonly snapshot: number; readonly keep: boolean };
  /** Another kernel with the same memory lives on: what is random must differ. */
  readonly reseed?: boolean;
}

/** Private memory in bytes, by number. */
export interface MemoryUsage {
  readonly kernels: Readonly<Record<string, number>>;
  readonly snapshots: Readonly<Record<string, number>>;
}

/** The input of a program. What it is given after it has stopped reading is lost. */
export interface ByteSink {
  /** Resolves when there is room for more, or when the reader has gone. */
  write(bytes: Uint8Array): Promise<void>;
  /** The program sees the end of its input, behind all that was written. */
  end(): void;
}

export interface KillOptions {
  /** All of its processes are asked to end by SIGTERM; what is left after this long is killed. Without it, at once. */
  readonly graceMs?: number | undefined;
}

/** One that runs. */
export interface RunningProgram {
  /** Where it was asked for. */
  readonly stdin: ByteSink | undefined;
  readonly stdout: ByteSource;
  readonly stderr: ByteSource;
  /** Ends it and every process that it started. */
  kill(options?: KillOptions): void;
  /** `problem`: it never began. */
  readonly exited: Promise<ProcessExit & { readonly problem?: string }>;
}

/** A program on a terminal of its own. */
export interface RunningTerminal {
  /** What it shows there. While it is not read, the program waits. */
  readonly output: ByteSource;
  /** Resolves when there is room for more. */
  write(bytes: Uint8Array): Promise<void>;
  resize(size: TerminalSize): void;
  /** Takes the terminal away; whatever does not end by that is killed. */
  kill(): void;
  /** `problem`: it never began. */
  readonly exited: Promise<ProcessExit & { readonly problem?: string }>;
}

export interface KernelHostListener {
  /** A snapshot has ended without being asked to. */
  snapshotLost(snapshot: number, outOfMemory: boolean): void;
  /** Code tried to reach a host that the network policy denies. Rate limited. */
  networkDenied(attempt: DeniedAttempt): void;
}

/** An environment in which kernels, their snapshots and programs run. It outlives its kernels. */
export interface KernelHost {
  /** The first call on a spare takes the kernel that was started ahead. */
  startKernel(options: StartKernelOptions): Promise<KernelConnection>;
  /** Says where the workspace of a spare lies once a session has it. Only hosts without a mount of it need this. */
  moveWorkspace?(path: string): void;
  /** Starts a program. */
  exec(program: ProgramSpec): Promise<RunningProgram>;
  /** Starts a program on a terminal: without an argv the shell that there is. */
  openTerminal(program: ProgramSpec, size: TerminalSize): Promise<RunningTerminal>;
  /** Discards a snapshot. */
  dropSnapshot(snapshot: number): void;
  /** Sets who is told of what happens in it; a spare has nobody until a session takes it. */
  listen(listener: KernelHostListener): void;
  memoryUsage(): Promise<MemoryUsage>;
  readonly capabilities: Capabilities;
  /** Pid 1 of the environment, as the host sees it. */
  readonly pid: number;
  /** Why the sandbox could not be set up, if it could not. */
  readonly failure: Error | undefined;
  /** Whether it can still start kernels. */
  readonly alive: boolean;
  close(): Promise<void>;
}

/** Kernel hosts to keep ready. Those with one key differ only in their workspace. */
export interface SpareSpec {
  readonly specKey: string;
  readonly count: number;
  /** Makes a spec with a new workspace that no session uses yet. */
  make(): EnvironmentSpec;
  /** Called with the spec of a host that is not needed, or could not be opened. */
  discard(spec: EnvironmentSpec): void;
}

export interface Spare {
  readonly host: KernelHost;
  readonly spec: EnvironmentSpec;
}

export interface Executor {
  readonly capabilities: Capabilities;
  readonly spares: SparePool;
  /** The Python that its kernels run, as far as packages must fit it. */
  interpreter(): Promise<Interpreter>;
  open(spec: EnvironmentSpec): Promise<KernelHost>;
  /** Sessions that are still open lose their kernels. */
  close(): Promise<void>;
}
