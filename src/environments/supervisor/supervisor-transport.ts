/** How the host reaches a supervisor: what differs between a sandbox of a template and a container. */

import type { ProcessExit } from '../../kernel/kernel-connection.ts';
import type { TerminalSize } from '../../protocol/terminal.ts';
import type { NetworkProxy } from '../../sandbox/proxy/proxy.ts';
import type { ProgramSpec, StartKernelOptions } from '../kernel-host.ts';
import type { FrameSocket, PipeSource } from './frame-socket.ts';
import type { PauseCheck } from './supervisor-client.ts';

/** What a connection is for, where it is not for a kernel that begins empty. */
export interface ConnectRequest {
  readonly from?: StartKernelOptions['from'];
  readonly spare?: boolean;
  /** `terminal`: on one of this size. */
  readonly command?: ProgramSpec & { readonly terminal?: TerminalSize };
}

/** To a kernel or a command. */
export interface ProcessConnection {
  readonly control: FrameSocket;
  readonly stdout: PipeSource;
  readonly stderr: PipeSource;
}

export interface SupervisorTransport {
  /** Leads to pid 1, which has been told the policy. */
  readonly supervisor: FrameSocket;
  /** Pid 1 as the host sees it, where it cannot say so itself. */
  readonly pid?: number;
  /** Its way out, where its policy names hosts. It ends with `release`. */
  readonly proxy?: NetworkProxy | undefined;
  /** `kernel` is the number that it will have; aborted where that has ended before anybody was connected to it. */
  connect(kernel: number, purpose: ConnectRequest, signal: AbortSignal): Promise<ProcessConnection>;
  /** Asked once, when the connection to pid 1 is lost: how everything inside has ended. */
  exitReason(problem: Error | undefined): Promise<ProcessExit>;
  /** Ends what does not end by itself, and leaves nothing behind. May be called again; never rejects. */
  close(): Promise<void>;
  /** If it can be held still from outside: then all of it is ended by `kill` when something in it is killed. */
  readonly pauseCheck: PauseCheck;
  /** Ends everything inside at once, also if it is held still. May be called again; never rejects. `pid` is that of pid 1. */
  kill(pid: number): Promise<void>;
  /** Waits for who opens it: rejects if that one does not answer in time. */
  awaitAnswer<T>(answer: Promise<T>): Promise<T>;
  /** Whether no connection can be made any more. */
  readonly unusable?: boolean;
}

export function closeConnection({ control, stdout, stderr }: ProcessConnection): void {
  control.close();
  stdout.close();
  stderr.close();
}

/** What ATTACH says of a purpose, whoever it is sent to. */
export function connectPayload({ from, spare = false, command }: ConnectRequest): object {
  return { twin: from?.twin ?? null, keep: from?.keep ?? false, spare, ...(command ? { command } : {}) };
}
