/** One run of a short program, with a deadline for its answer and for its end. */

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { withTimeout } from './deadline.ts';
import { LONGEST_KILL_MS } from './process-end.ts';

const run = promisify(execFile);

/** Its stdout. It is killed after `timeoutMs`. Rejects as `execFile` does. */
export async function runProgram(program: string, args: readonly string[], timeoutMs: number): Promise<string> {
  const running = run(program, args, { timeout: timeoutMs, killSignal: 'SIGKILL', encoding: 'utf8' });
  const late = () => new Error(`it was killed after ${timeoutMs / 1000} s and does not end`);
  return (await withTimeout(running, timeoutMs + LONGEST_KILL_MS, late)).stdout;
}
