/** Waits for the end of a child process, with deadlines: its pipes may stay open, and some processes cannot be killed. */
import { type ChildProcess, execFile } from 'node:child_process';
import { Socket } from 'node:net';
import { constants } from 'node:os';
import { promisify } from 'node:util';
import { settlesWithin, withTimeout } from './deadline.ts';

interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A pipe that is silent for this long after its process ended is held open by another process. */
export const SILENT_PIPE_MS = 1000;
/** A process that waits for a hanging disk ignores every signal, even SIGKILL. */
export const LONGEST_KILL_MS = 10_000;

/** Resolves when the process has ended and its output was read. Rejects if it could not be started. */
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

/** After SIGKILL: whether `ended` settles in time. If not, emits a warning, and the caller stops waiting. */
export async function endsAfterKill(ended: Promise<unknown>, what: string): Promise<boolean> {
  if (await settlesWithin(ended, LONGEST_KILL_MS)) return true;
  process.emitWarning(
    `${what} was killed and has not ended after ${LONGEST_KILL_MS / 1000} s. It is left to the system.`,
  );
  return false;
}

/** If a number has two names, the first is the well-known one: SIGABRT, not SIGIOT. */
const names = new Map(
  Object.entries(constants.signals)
    .reverse()
    .map(([name, number]) => [number, name]),
);

export function signalName(number: number): string {
  return names.get(number) ?? `signal ${number}`;
}

const run = promisify(execFile);

/** Runs a short program and returns its stdout. It is killed after `timeoutMs`. Rejects like `execFile`. */
export async function runProgram(program: string, args: readonly string[], timeoutMs: number): Promise<string> {
  const running = run(program, args, { timeout: timeoutMs, killSignal: 'SIGKILL', encoding: 'utf8' });
  const late = () => new Error(`it was killed after ${timeoutMs / 1000} s and does not end`);
  return (await withTimeout(running, timeoutMs + LONGEST_KILL_MS, late)).stdout;
}
