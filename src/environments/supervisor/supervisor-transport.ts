/** How the host reaches a supervisor: what differs between a sandbox of a template and a container. */

import type { Attach, ProgramSpec } from '../../protocol/host-payloads.ts';
import type { ProcessExit } from '../../protocol/process.ts';
import type { NetworkProxy } from '../../sandbox/proxy/proxy.ts';
import type { StartKernelOptions } from '../kernel-host.ts';
import type { FrameSocket, PipeSource } from './frame-socket.ts';
import type { PauseCheck } from './supervisor-client.ts';

/** What to connect to, if it is not a new, empty kernel. */
export interface ConnectRequest {
  readonly from?: StartKernelOptions['from'];
  readonly spare?: boolean;
  readonly command?: ProgramSpec;
}

/** To a kernel or a command. */
export interface ProcessConnection {
  readonly control: FrameSocket;
  readonly stdout: PipeSource;
  readonly stderr: PipeSource;
}

export interface SupervisorTransport {
  /** The connection to pid 1, which has received the spec. */
  readonly supervisor: FrameSocket;
  /** Pid 1 as the host sees it, where it cannot say so itself. */
  readonly pid?: number;
  /** Its way out, where its policy names hosts. It ends with `release`. */
  readonly proxy?: NetworkProxy | undefined;
  /** `kernel` is the number that it will have; aborted where that has ended before anybody was connected to it. */
  connect(kernel: number, request: ConnectRequest, signal: AbortSignal): Promise<ProcessConnection>;
  /** How everything inside ended. Called once, when the connection to pid 1 is lost. */
  exitReason(problem: Error | undefined): Promise<ProcessExit>;
  /** Ends what is left and removes its files. Idempotent; never rejects. */
  close(): Promise<void>;
  /** Finds out whether the environment is paused. If so, a kill of one process in it becomes a kill of all. */
  readonly pauseCheck: PauseCheck;
  /** Kills everything inside, even if it is paused. Idempotent; never rejects. `pid` is that of pid 1. */
  kill(pid: number): Promise<void>;
  /** Waits for an answer of the process that opens the environment; rejects if it takes too long. */
  awaitAnswer<T>(answer: Promise<T>): Promise<T>;
  /** Whether no more connections can be made. */
  readonly unusable?: boolean;
}

export function closeConnection({ control, stdout, stderr }: ProcessConnection): void {
  control.close();
  stdout.close();
  stderr.close();
}

/** The part of an ATTACH payload that all transports share. */
export function attachPayload(kernel: number, { from, spare = false, command }: ConnectRequest): Attach {
  return { kernel, snapshot: from?.snapshot ?? null, keep: from?.keep ?? false, spare, command };
}
