/** What an executor gives the host of one live interpreter: its connection, its output, and power over its life. */

import type { Frame } from '../protocol/frames.ts';

/** Bytes from one descriptor of the kernel. */
export interface ByteSource {
  /** A chunk is only valid during the call. Returning false stops reading until `resume`. */
  read(onChunk: (chunk: Buffer) => boolean, onEnd: () => void): void;
  resume(): void;
  close(): void;
}

/** Frames to and from the kernel. Reading begins with `read`. */
export interface FrameLink {
  send(type: number, id: number, payload?: Uint8Array | string): void;
  /** Resolves when the other side has room for more, or is gone. */
  sendSlowly(type: number, id: number, payload: Uint8Array): Promise<void>;
  read(onFrame: (frame: Frame) => void, onEnd: (problem?: Error) => void): void;
  pause(): void;
  resume(): void;
  close(): void;
}

/** How the process ended, as the one that reaped it says. */
export interface Exit {
  readonly signal?: string;
  readonly exitCode?: number;
  readonly outOfMemory: boolean;
  /** Where no one could say: the sandbox as a whole was lost. */
  readonly lost?: string;
}

export interface KernelLink {
  readonly control: FrameLink;
  readonly stdout: ByteSource;
  readonly stderr: ByteSource;
  /** Raises KeyboardInterrupt in the code if this execution still runs. */
  interrupt(execution: number): void;
  /** Ends the kernel and every process that it started. */
  kill(): void;
  /** Whether the place where it lives was stopped from outside: then nothing in there answers. Never rejects. */
  heldStill?(): Promise<boolean>;
  readonly exited: Promise<Exit>;
}
