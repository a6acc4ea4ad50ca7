/**
 * The ports for running kernels: Executor opens kernel hosts; a KernelHost starts kernels, programs and terminals. A program can
 * be run to its end, with a timeout and bounded output.
 */

import { Readable } from 'node:stream';
import type { ByteSource, KernelConnection } from '../kernel/kernel-connection.ts';
import { timeoutAfterIo } from '../lib/deadline.ts';
import { finishProcess, SILENT_PIPE_MS } from '../lib/run-process.ts';
import type { Capabilities } from '../protocol/enums.ts';
import type { EnvironmentSpec, Interpreter } from '../protocol/environment-spec.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ProgramSpec } from '../protocol/kernel-payloads.ts';
import type { Command, CommandResult, ProcessExit } from '../protocol/process.ts';
import type { TerminalSize } from '../protocol/workspace-models.ts';
import type { DeniedAttempt } from '../sandbox/proxy/proxy.ts';
import type { SparePool } from './supervisor/spare-pool.ts';

export interface StartKernelOptions {
  /** Variables in addition to those of every kernel. A kernel that starts from a snapshot keeps its own. */
  readonly env: Readonly<Record<string, string>>;
  /** The folder of packages that the kernel may import, as a path inside the sandbox. */
  readonly packages?: string | undefined;
  /** A snapshot to start from, instead of an empty kernel. With `keep`, the snapshot stays and can be used again. */
  readonly from?: { readonly snapshot: number; readonly keep: boolean };
  /** Another kernel with the same memory stays alive, so random state must differ. */
  readonly reseed?: boolean;
}

/** Private memory in bytes, by number. */
export interface MemoryUsage {
  readonly kernels: Readonly<Record<string, number>>;
  readonly snapshots: Readonly<Record<string, number>>;
}

/** A program's input. Data written after the program stopped reading is lost. */
export interface ByteSink {
  /** Resolves when there is room for more, or when the reader is gone. */
  write(bytes: Uint8Array): Promise<void>;
  /** Closes the input after everything that was written. */
  end(): void;
}

export interface KillOptions {
  /** Sends SIGTERM to all processes, and kills the remaining ones after this time. By default kills at once. */
  readonly graceMs?: number | undefined;
}

/** A running program. */
export interface RunningProgram {
  /** Set if it was requested. */
  readonly stdin: ByteSink | undefined;
  readonly stdout: ByteSource;
  readonly stderr: ByteSource;
  /** Kills the program and every process that it started. */
  kill(options?: KillOptions): void;
  /** `problem` is set if the program never started. */
  readonly exited: Promise<ProcessExit & { readonly problem?: string }>;
}

/** A program on its own terminal. */
export interface RunningTerminal {
  /** What the terminal shows. The program waits while nothing reads it. */
  readonly output: ByteSource;
  /** Resolves when there is room for more. */
  write(bytes: Uint8Array): Promise<void>;
  resize(size: TerminalSize): void;
  /** Closes the terminal and kills what does not end by that. */
  kill(): void;
  /** `problem` is set if the program never started. */
  readonly exited: Promise<ProcessExit & { readonly problem?: string }>;
}

export interface KernelHostListener {
  /** A snapshot ended without being asked to. */
  snapshotLost(snapshot: number, outOfMemory: boolean): void;
  /** Code tried to reach a host that the network policy denies. Rate limited. */
  networkDenied(attempt: DeniedAttempt): void;
}

/** An environment in which kernels, their snapshots and programs run. It outlives its kernels. */
export interface KernelHost {
  /** The first call on a spare takes the kernel that was started ahead. */
  startKernel(options: StartKernelOptions): Promise<KernelConnection>;
  /** Sets the workspace path of a spare that a session takes. Only hosts without a mount of it need this. */
  moveWorkspace?(path: string): void;
  /** Starts a program. */
  exec(program: ProgramSpec): Promise<RunningProgram>;
  /** Starts a program on a terminal; without an argv, the shell. */
  openTerminal(program: ProgramSpec, size: TerminalSize): Promise<RunningTerminal>;
  /** Discards a snapshot. */
  dropSnapshot(snapshot: number): void;
  /** Sets the listener for events. A spare has none until a session takes it. */
  listen(listener: KernelHostListener): void;
  memoryUsage(): Promise<MemoryUsage>;
  readonly capabilities: Capabilities;
  /** Pid 1 of the environment, as a pid on the host. */
  readonly pid: number;
  /** Why the sandbox could not be set up; undefined if it was. */
  readonly failure: Error | undefined;
  /** Whether it can still start kernels. */
  readonly alive: boolean;
  close(): Promise<void>;
}

/** Kernel hosts to keep ready. Those with the same key differ only in their workspace. */
export interface SpareSpec {
  readonly specKey: string;
  readonly count: number;
  /** Creates a spec with a new, unused workspace. */
  make(): EnvironmentSpec;
  /** Called with the spec of a host that is no longer needed or could not be opened. */
  discard(spec: EnvironmentSpec): void;
}

export interface Spare {
  readonly host: KernelHost;
  readonly spec: EnvironmentSpec;
}

export interface Executor {
  readonly capabilities: Capabilities;
  readonly spares: SparePool;
  /** The Python of its kernels, for choosing packages. */
  interpreter(): Promise<Interpreter>;
  open(spec: EnvironmentSpec): Promise<KernelHost>;
  /** Sessions that are still open lose their kernels. */
  close(): Promise<void>;
}

export async function runToEnd(
  host: KernelHost,
  command: Command,
  packages: string | undefined,
): Promise<CommandResult> {
  command.signal?.throwIfAborted();
  const link = await host.exec({ argv: command.argv, env: command.env ?? {}, packages });
  const running = {
    stdout: toReadable(link.stdout),
    stderr: toReadable(link.stderr),
    exited: link.exited,
    kill: () => link.kill(),
    closeOutput: () => {
      link.stdout.close();
      link.stderr.close();
    },
  };
  const { exit, ...result } = await finishProcess(running, command);
  command.signal?.throwIfAborted();
  if (exit.problem !== undefined) {
    const message = `${command.argv[0]} could not be started in the sandbox: ${exit.problem}.`;
    throw new CellaError('TOOL_FAILED', message, { details: { problem: exit.problem } });
  }
  if (exit.environmentEnded !== undefined) {
    const message = `${command.argv[0]} ended with the sandbox that it ran in: ${exit.environmentEnded}.`;
    throw new CellaError('TOOL_FAILED', message);
  }
  return { ...result, exit };
}

/** After `exited` settles, closes a source that stays silent while the reader wants more: another process holds it open. */
export function toReadable(source: ByteSource, exited?: Promise<unknown>): Readable {
  let begun = false;
  let isWanted = false;
  let isOver = false;
  let cancel = () => {};
  const want = (more: boolean) => {
    isWanted = more;
    cancel();
    if (isWanted && isOver) cancel = timeoutAfterIo(SILENT_PIPE_MS, () => source.close());
  };
  const stream: Readable = new Readable({
    read() {
      want(true);
      if (begun) return source.resume();
      begun = true;
      source.read(
        // A chunk is only valid during this call. If there is room for more, the stream calls `read` again.
        (chunk) => {
          want(false);
          return stream.push(Buffer.from(chunk));
        },
        () => {
          want(false);
          stream.push(null);
        },
      );
    },
    destroy(error, done) {
      want(false);
      source.close();
      done(error);
    },
  });
  const over = () => {
    isOver = true;
    want(isWanted);
  };
  exited?.then(over, over);
  return stream;
}
