/** The way into an enclosure: what differs between a sandbox of a template's and a container. */

import type { ProcessExit } from '../kernel/kernel-connection.ts';
import type { TerminalSize } from '../protocol/terminal.ts';
import type { NetworkProxy } from '../sandbox/proxy/proxy.ts';
import type { LaunchOptions, Program } from './contract.ts';
import type { Stillness } from './held-still.ts';
import type { FrameSocket, PipeSource } from './sockets.ts';

/** What a connection is for, where it is not for a kernel that begins empty. */
export interface Purpose {
  readonly from?: LaunchOptions['from'];
  readonly spare?: boolean;
  /** `terminal`: on one of this size. */
  readonly command?: Program & { readonly terminal?: TerminalSize };
}

/** To a kernel or a command. */
export interface Connection {
  readonly control: FrameSocket;
  readonly stdout: PipeSource;
  readonly stderr: PipeSource;
}

export interface Way {
  /** Leads to pid 1, which has been told the policy. */
  readonly supervisor: FrameSocket;
  /** Pid 1 as the host sees it, where it cannot say so itself. */
  readonly pid?: number;
  /** Its way out, where its policy names hosts. It ends with `release`. */
  readonly proxy?: NetworkProxy | undefined;
  /** `kernel` is the number that it will have; aborted where that has ended before anybody was connected to it. */
  attach(kernel: number, purpose: Purpose, signal: AbortSignal): Promise<Connection>;
  /** Asked once, when the connection to pid 1 is lost: how everything inside has ended. */
  fate(problem: Error | undefined): Promise<ProcessExit>;
  /** Ends what does not end by itself, and leaves nothing behind. May be called again; never rejects. */
  release(): Promise<void>;
  /** If it can be held still from outside: then all of it is ended by `kill` when something in it is killed. */
  readonly stillness: Stillness;
  /** Ends everything inside at once, also if it is held still. May be called again; never rejects. `pid` is that of pid 1. */
  kill(pid: number): Promise<void>;
  /** Waits for who opens it: rejects if that one does not answer in time. */
  answered<T>(answer: Promise<T>): Promise<T>;
  /** Whether no connection can be made any more. */
  readonly abandoned?: boolean;
}

export function closeConnection({ control, stdout, stderr }: Connection): void {
  control.close();
  stdout.close();
  stderr.close();
}

/** What ATTACH says of a purpose, whoever it is sent to. */
export function placeOf({ from, spare = false, command }: Purpose): object {
  return { twin: from?.twin ?? null, keep: from?.keep ?? false, spare, ...(command ? { command } : {}) };
}
