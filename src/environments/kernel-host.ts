/** The ports for running kernels: Executor opens kernel hosts; a KernelHost starts kernels, programs and terminals. */

import type { ByteSource, KernelConnection, ProcessExit } from '../kernel/kernel-connection.ts';
import type { Capabilities } from '../protocol/capabilities.ts';
import type { Interpreter } from '../protocol/interpreter.ts';
import type { TerminalSize } from '../protocol/terminal.ts';
import type { DeniedAttempt } from '../sandbox/proxy/allow-list.ts';
import type { EnvironmentSpec } from '../sandbox/spec.ts';

export interface StartKernelOptions {
  /** Variables beside those that every kernel has. One that comes from a twin keeps what it had. */
  readonly env: Readonly<Record<string, string>>;
  /** The folder, as it is inside, of the packages that it may import. */
  readonly packages?: string | undefined;
  /** A frozen fork to begin with, instead of an empty kernel. `keep`: it stays, and can be begun with again. */
  readonly from?: { readonly twin: number; readonly keep: boolean };
  /** Another kernel with the same memory lives on: what is random must differ. */
  readonly reseed?: boolean;
}

/** Private memory in bytes, by number. */
export interface MemoryUsage {
  readonly kernels: Readonly<Record<string, number>>;
  readonly twins: Readonly<Record<string, number>>;
}

/** A program to be run beside the kernels. */
export interface ProgramSpec {
  readonly argv: readonly string[];
  /** Beside what every process in the enclosure has. */
  readonly env: Readonly<Record<string, string>>;
  /** The folder, as it is inside, of the packages that it finds. */
  readonly packages?: string | undefined;
  /** The folder, as it is inside, that it begins in; without it the one that kernels work in. */
  readonly cwd?: string | undefined;
  /** `open`: the host writes it. Without it there is none. */
  readonly stdin?: 'open' | undefined;
}

/** The input of a program. What it is given after it has stopped reading is lost. */
export interface ByteSink {
  /** Resolves when there is room for more, or nobody to read it. */
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

/** A closed place in which kernels and their frozen forks live; it outlives its kernels. */
export interface KernelHost {
  /** A spare's first kernel is woken up before this returns. */
  startKernel(options: StartKernelOptions): Promise<KernelConnection>;
  /** Told where the folder of a spare lies once it is somebody's, by those that do not hold it by its mount. */
  moveWorkspace?(path: string): void;
  /** Starts a program. */
  exec(program: ProgramSpec): Promise<RunningProgram>;
  /** Starts a program on a terminal: without an argv the shell that there is. */
  openTerminal(program: ProgramSpec, size: TerminalSize): Promise<RunningTerminal>;
  /** Lets go of a twin. */
  dropSnapshot(twin: number): void;
  /** Told when a twin has ended without being asked to. */
  onGone: (twin: number, outOfMemory: boolean) => void;
  /** Told of hosts that something in here tried to reach, and may not; not of each in a flood of them. */
  onDenied: (attempt: DeniedAttempt) => void;
  memoryUsage(): Promise<MemoryUsage>;
  /** Set where no second kernel can begin with a twin while the one that it was kept of lives. */
  readonly forkless?: true;
  /** The process, as the host sees it, that everything in here descends from. */
  readonly pid: number;
  /** Why it could not be closed around its first process, if it could not. */
  readonly failure: Error | undefined;
  /** Whether it can still launch. */
  readonly alive: boolean;
  close(): Promise<void>;
}

/** Enclosures to keep ready: those of one shape differ in nothing but whose folder they hold. */
export interface SpareSpec {
  readonly specKey: string;
  readonly count: number;
  /** A policy with a folder that is nobody's yet. */
  make(): EnvironmentSpec;
  /** Told of a policy whose enclosure is not needed, or could not be made. */
  discard(spec: EnvironmentSpec): void;
}

export interface Spare {
  readonly host: KernelHost;
  readonly spec: EnvironmentSpec;
}

/** Enclosures that wait for somebody. */
export interface SpareRack {
  /** How many of that shape are ready. */
  count(shape: string): number;
  /** Somebody may be about to take one. */
  wake(): void;
  /** An enclosure of that shape with a kernel that is ready, if there is one. */
  take(shape: string): Spare | undefined;
  /** In the background, a little later. One that cannot be made is no loss: the next `open` meets the reason itself. */
  keep(order: SpareSpec): void;
}

export interface Executor {
  readonly capabilities: Capabilities;
  readonly spares: SpareRack;
  /** The Python that its kernels run, as far as packages must fit it. */
  interpreter(): Promise<Interpreter>;
  open(spec: EnvironmentSpec): Promise<KernelHost>;
  /** Sessions that are still open lose their kernels. */
  close(): Promise<void>;
}
