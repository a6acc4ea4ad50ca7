/** The end of a child process, with a deadline for what may never come: the end of its pipes, and of what cannot be killed. */

import type { ChildProcess } from 'node:child_process';
import { Socket } from 'node:net';
import { constants } from 'node:os';
import { settlesWithin } from './deadline.ts';

interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A pipe that is silent for so long after the end of its process is held open by another process. */
export const SILENT_PIPE_MS = 1000;
/** A process that waits for a disk that hangs takes no signal, not even SIGKILL. */
export const LONGEST_KILL_MS = 10_000;

/** Resolves when it has ended and its output was read. Rejects if it could not be started. */
export function processEnd(child: ChildProcess): Promise<ProcessEnd> {
  const { promise, resolve, reject } = Promise.withResolvers<ProcessEnd>();
  child.once('error', (error) => child.pid === undefined && reject(error));
  child.once('exit', () => {
    const pipes = [child.stdout, child.stderr].filter((pipe) => pipe instanceof Socket);
    const bytes = () => pipes.reduce((sum, pipe) => sum + pipe.bytesRead, 0);
    let before = bytes();
    const look = setInterval(() => {
      const now = bytes();
      if (now === before) for (const pipe of pipes) pipe.destroy();
      before = now;
    }, SILENT_PIPE_MS);
    child.once('close', () => clearInterval(look));
  });
  child.once('close', (code, signal) => resolve({ code, signal }));
  return promise;
}

/** After SIGKILL was sent: whether `ended` came in time. If not, nothing waits for it any longer, and a warning says so. */
export async function endsAfterKill(ended: Promise<unknown>, what: string): Promise<boolean> {
  if (await settlesWithin(ended, LONGEST_KILL_MS)) return true;
  process.emitWarning(
    `${what} was killed and has not ended after ${LONGEST_KILL_MS / 1000} s. It is left to the system.`,
  );
  return false;
}

/** Where a number has two names, the first is the one that people know: SIGABRT, not SIGIOT. */
const names = new Map(
  Object.entries(constants.signals)
    .reverse()
    .map(([name, number]) => [number, name]),
);

export function signalName(number: number): string {
  return names.get(number) ?? `signal ${number}`;
}
