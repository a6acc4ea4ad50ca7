/** What a command's end means to the shell that started it. */

import { CellaError } from '../protocol/errors.ts';
import type { ResultEvent, Status } from '../protocol/execution-events.ts';

export const Exit = {
  ok: 0,
  failed: 1,
  usage: 2,
  /** What was asked about is not there, as of a service: no failure of the command. */
  notRunning: 3,
  timeout: 124,
  hangup: 129,
  interrupted: 130,
  killed: 137,
  /** 128 + SIGPIPE: what a shell reports for any program whose reader went away. */
  brokenPipe: 141,
  terminated: 143,
} as const;

const byStatus: Record<Status, number> = {
  ok: Exit.ok,
  error: Exit.failed,
  timeout: Exit.timeout,
  interrupted: Exit.interrupted,
  died: Exit.killed,
};

/** SystemExit ends the command as it would end Python: its code modulo 256. */
export function exitCodeOf(result: ResultEvent): number {
  const asked = result.error?.exitCode;
  if (result.status === 'error' && asked !== undefined) return ((asked % 256) + 256) % 256;
  return byStatus[result.status];
}

/** The command line cannot be used. `advice` says what to type instead. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  readonly advice: string;

  constructor(message: string, advice: string) {
    super(message);
    this.advice = advice;
  }
}

export function isBrokenPipe(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return code === 'EPIPE' || code === 'ERR_STREAM_DESTROYED' || code === 'ERR_STREAM_WRITE_AFTER_END';
}

export function exitCodeOfFailure(error: unknown): number {
  if (isBrokenPipe(error)) return Exit.brokenPipe;
  if (error instanceof UsageError) return Exit.usage;
  return error instanceof CellaError && error.code === 'INVALID_OPTIONS' ? Exit.usage : Exit.failed;
}
