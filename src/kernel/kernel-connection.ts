/** What a kernel's host provides: a frame connection, two output streams, interrupt and kill; and how its end is described. */

import type { Death } from '../protocol/execution-events.ts';
import type { Frame } from '../protocol/kernel-frames.ts';
import { ExitCode } from '../protocol/kernel-limits.ts';
import type { ProcessExit } from '../protocol/process.ts';

/** Bytes from one descriptor of the kernel. */
export interface ByteSource {
  /** A chunk is only valid during the call. Returning false stops reading until `resume`. */
  read(onChunk: (chunk: Buffer) => boolean, onEnd: () => void): void;
  resume(): void;
  close(): void;
}

/** Frames to and from the kernel. Reading begins with `read`. */
export interface FrameConnection {
  send(type: number, id: number, payload?: Uint8Array | string): void;
  /** Resolves when the other side has room for more, or is gone. */
  sendAndDrain(type: number, id: number, payload: Uint8Array): Promise<void>;
  read(onFrame: (frame: Frame) => void, onEnd: (problem?: Error) => void): void;
  pause(): void;
  resume(): void;
  close(): void;
}

export interface KernelConnection {
  readonly control: FrameConnection;
  readonly stdout: ByteSource;
  readonly stderr: ByteSource;
  /** Raises KeyboardInterrupt in the code if this execution still runs. */
  interrupt(execution: number): void;
  /** Ends the kernel and every process that it started. */
  kill(): void;
  /** Whether the place where it lives was stopped from outside: then nothing in there answers. Never rejects. */
  isPaused?(): Promise<boolean>;
  readonly exited: Promise<ProcessExit>;
}

export function describeDeath(
  exit: ProcessExit,
  violation: string | undefined,
  closing: boolean,
  lastStderr: string,
): Death {
  const how: Pick<Death, 'signal' | 'exitCode' | 'lastStderr'> = {
    signal: exit.signal,
    exitCode: exit.code,
    ...(lastStderr === '' ? {} : { lastStderr }),
  };
  if (violation !== undefined) {
    return { code: 'KERNEL_PROTOCOL', message: `The kernel was cut off: it sent ${violation}.`, ...how };
  }
  if (exit.outOfMemory || exit.code === ExitCode.outOfMemory) {
    const ended = exit.signal === undefined ? 'ended' : 'was killed';
    return { code: 'KERNEL_OUT_OF_MEMORY', message: `The kernel ${ended}: it used more memory than it may.`, ...how };
  }
  if (exit.signal === 'SIGXCPU') {
    return { code: 'KERNEL_CPU_LIMIT', message: 'The kernel was killed: it used up its CPU seconds.', ...how };
  }
  return { code: 'KERNEL_DIED', message: closing ? 'The kernel was closed.' : describeExit(exit), ...how };
}

function describeExit(exit: ProcessExit): string {
  if (exit.environmentEnded !== undefined) return `The kernel is gone: ${exit.environmentEnded}.`;
  if (exit.signal !== undefined) return `The kernel was killed by ${exit.signal}.`;
  return `The kernel ended with exit code ${exit.code}.`;
}
