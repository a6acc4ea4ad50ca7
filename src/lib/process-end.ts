/** Signals and ends processes and threads. Some cannot be killed. */
import { constants } from 'node:os';
import { settlesWithin } from './deadline.ts';

/** A negative pid stands for a process group. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended, or belongs to another user.
  }
}

/** A process that waits for a hung disk ignores every signal, even SIGKILL. */
export const LONGEST_KILL_MS = 10_000;

/** After SIGKILL: whether `ended` settles in time. If not, emits a warning, and the caller should stop waiting. */
export async function endsAfterKill(ended: Promise<unknown>, what: string): Promise<boolean> {
  if (await settlesWithin(ended, LONGEST_KILL_MS)) return true;
  process.emitWarning(
    `${what} was killed and has not ended after ${LONGEST_KILL_MS / 1000} s. Cella no longer waits for it.`,
  );
  return false;
}

let threadsLeft = 0;

/** For a worker thread that does not end after it was terminated. */
export function leaveThread(ended: Promise<unknown>): void {
  threadsLeft++;
  const back = () => {
    threadsLeft--;
  };
  ended.then(back, back);
}

/** Ends this process after its work. Node waits for threads, so a process with a leftover thread kills itself. */
export function endThisProcess(code: number): void {
  if (threadsLeft > 0) process.kill(process.pid, 'SIGKILL');
  process.exit(code);
}

/** If a signal number has two names, the first is the common one: SIGABRT, not SIGIOT. */
const names = new Map(
  Object.entries(constants.signals)
    .reverse()
    .map(([name, number]) => [number, name]),
);

export function signalName(number: number): string {
  return names.get(number) ?? `signal ${number}`;
}
