/** Tells why a command could not do its work, the same way for every command, and gives its exit code. */

import { CellaError } from '../protocol/errors.ts';
import { exitCodeOfFailure, isBrokenPipe, UsageError } from './exit.ts';
import type { Terminal } from './terminal.ts';
import { toText } from './texts.ts';
import { adviceOn, messageOf, systemErrorToText } from './wording.ts';

interface Failure {
  readonly code: string;
  readonly message: string;
  readonly advice: string;
}

/** Never fails itself: where nobody can be told, the exit code still says what happened. */
export async function reportFailure(terminal: Terminal, error: unknown, { json }: { json: boolean }): Promise<number> {
  const exitCode = exitCodeOfFailure(error);
  // There is nobody left to tell.
  if (isBrokenPipe(error)) return exitCode;
  const failure = describe(error);
  const told = json
    ? terminal.outLines(JSON.stringify({ type: 'error', ...failure }))
    : terminal.errLines(toText(`cella: ${failure.message}${failure.advice && `\n${failure.advice}`}`), 'red');
  await told.catch(() => {});
  return exitCode;
}

function describe(error: unknown): Failure {
  if (error instanceof CellaError) {
    return { code: error.code, message: messageOf(error), advice: adviceOn(error.code, error.ownAdvice) };
  }
  if (error instanceof UsageError) return { code: 'INVALID_OPTIONS', message: error.message, advice: error.advice };
  if (isFailedWrite(error)) {
    const reason = systemErrorToText(error) ?? error.message;
    return { code: 'UNEXPECTED', message: `the output could not be written: ${reason}.`, advice: '' };
  }
  // Nobody foresaw this one, so the place it came from is what helps.
  const place = error instanceof Error ? error.stack : String(error);
  return { code: 'UNEXPECTED', message: `unexpected error: ${place}`, advice: '' };
}

function isFailedWrite(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error && error.syscall === 'write';
}
