/** The exit codes of the command line. */

import { systemCode } from '../lib/values.ts';
import type { Status } from '../protocol/enums.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ResultEvent } from '../protocol/execution-events.ts';

export const Exit = {
  ok: 0,
  failed: 1,
  usage: 2,
  /** The queried service does not exist. The command itself has not failed. */
  notRunning: 3,
  timeout: 124,
  hangup: 129,
  interrupted: 130,
  killed: 137,
  /** 128 + SIGPIPE, as a shell reports for a program whose reader exited. */
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

/** SystemExit sets the exit code as in Python: modulo 256. */
export function exitCodeOf(result: ResultEvent): number {
  const asked = result.error?.exitCode;
  if (result.status === 'error' && asked !== undefined) return ((asked % 256) + 256) % 256;
  return byStatus[result.status];
}

/** Whether the reader of the output has exited. */
export function isBrokenPipe(error: unknown): boolean {
  const code = systemCode(error);
  return code === 'EPIPE' || code === 'ERR_STREAM_DESTROYED' || code === 'ERR_STREAM_WRITE_AFTER_END';
}

export function exitCodeOfFailure(error: unknown): number {
  if (isBrokenPipe(error)) return Exit.brokenPipe;
  return error instanceof CellaError && error.code === 'INVALID_OPTIONS' ? Exit.usage : Exit.failed;
}
