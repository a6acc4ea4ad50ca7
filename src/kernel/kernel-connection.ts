/**
 * The connection to a kernel: its frames and output streams, and the errors for a kernel that did not start or has ended.
 */

import { CellaError, folderHangs } from '../protocol/errors.ts';
import type { Death } from '../protocol/execution-events.ts';
import { ExitCode, FRAME_COST, type Frame } from '../protocol/kernel-frames.ts';
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
  /** Kills the kernel and every process that it started. */
  kill(): void;
  /** Whether the kernel or its environment is paused and therefore does not answer. Never rejects. */
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
    lastStderr: lastStderr || undefined,
  };
  if (violation !== undefined) {
    return { code: 'KERNEL_PROTOCOL', message: `The kernel was ended: it sent ${violation}.`, ...how };
  }
  if (exit.outOfMemory || exit.code === ExitCode.outOfMemory) {
    const ended = exit.signal === undefined ? 'ended' : 'was killed';
    return { code: 'KERNEL_OUT_OF_MEMORY', message: `The kernel ${ended}: it exceeded its memory limit.`, ...how };
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

/** A connection with more than this unread is paused. */
const MOST_EARLY_BYTES = 1024 * 1024;

/** Frames that arrive before there is a reader wait in bounded memory. */
export abstract class BufferedFrameConnection implements FrameConnection {
  readonly #firstFrame = Promise.withResolvers<void>();
  #onFrame: ((frame: Frame) => void) | undefined;
  #onEnd: ((problem?: Error) => void) | undefined;
  #early: Frame[] = [];
  #earlyBytes = 0;
  #paused = false;
  #ended: { readonly problem: Error | undefined } | undefined;

  abstract send(type: number, id: number, payload?: Uint8Array | string): void;
  abstract sendAndDrain(type: number, id: number, payload: Uint8Array): Promise<void>;
  abstract close(): void;
  protected abstract pauseReading(): void;
  protected abstract resumeReading(): void;

  pause(): void {
    this.#paused = true;
    this.#applyPause();
  }

  resume(): void {
    this.#paused = false;
    this.#applyPause();
  }

  read(onFrame: (frame: Frame) => void, onEnd: (problem?: Error) => void): void {
    this.#onFrame = onFrame;
    this.#onEnd = onEnd;
    const early = this.#early;
    this.#early = [];
    this.#earlyBytes = 0;
    // The reader may call `unread` after any frame.
    for (const frame of early) this.deliver(frame);
    this.#applyPause();
    if (this.#ended) this.#onEnd?.(this.#ended.problem);
  }

  /** Removes the reader: later frames wait for another one. */
  unread(): void {
    this.#onFrame = undefined;
    this.#onEnd = undefined;
  }

  /** Resolves when a frame is waiting, or none will arrive. */
  get firstFrame(): Promise<void> {
    return this.#firstFrame.promise;
  }

  /** Whether no more frames will arrive. */
  protected get ended(): boolean {
    return this.#ended !== undefined;
  }

  protected deliver(frame: Frame): void {
    if (this.#onFrame) {
      this.#onFrame(frame);
      return;
    }
    this.#early.push(frame);
    this.#earlyBytes += frame.payload.length + FRAME_COST;
    if (this.#earlyBytes > MOST_EARLY_BYTES) this.pauseReading();
    this.#firstFrame.resolve();
  }

  /** Called when no more frames will arrive. */
  protected finishReading(problem?: Error): void {
    if (this.#ended) return;
    this.#ended = { problem };
    this.#firstFrame.resolve();
    this.#onEnd?.(problem);
  }

  #applyPause(): void {
    if (this.#paused || this.#earlyBytes > MOST_EARLY_BYTES) this.pauseReading();
    else this.resumeReading();
  }
}

/** The system cannot start another process right now; the isolation itself would work. */
const NO_ROOM = /Resource temporarily unavailable|BlockingIOError|can't start new thread|Cannot allocate memory/;
const NO_ROOM_ADVICE =
  'There is no room for another process. End some, or raise the limit: `ulimit -u`, `TasksMax=` of a service, `pids.max` of a control group. Then try again.';

/** The error for a layer of isolation that could not be set up. */
export function isolationError(layer: string, message: string): CellaError {
  if (layer === 'workspace') {
    return new CellaError('WORKSPACE_NOT_WRITABLE', `The workspace could not be mounted into the sandbox: ${message}.`);
  }
  if (layer === 'replaced') {
    return new CellaError(
      'FOLDER_REPLACED',
      `A folder of the session is no longer the one that it was created with: ${message}.`,
    );
  }
  if (layer === 'folder') return folderHangs(`${message}.`);
  if (layer === 'preload') return new CellaError('INVALID_OPTIONS', `preload: ${message}.`);
  if (layer === 'snapshot') return new CellaError('CHECKPOINT_GONE', `The kernel cannot go back: ${message}.`);
  if (layer === 'template') return new CellaError('TEMPLATE_FAILED', `A kernel could not be started: ${message}.`);
  return new CellaError(
    'SANDBOX_UNAVAILABLE',
    `The sandbox cannot be isolated, so nothing was started: ${layer}: ${message}.`,
    { details: { layer }, ...(NO_ROOM.test(message) ? { advice: NO_ROOM_ADVICE } : {}) },
  );
}
