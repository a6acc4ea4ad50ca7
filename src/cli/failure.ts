/** Tells why a command could not do its work, the same way for every command, and gives its exit code. */

import { CellaError } from '../protocol/errors.ts';
import { exitCodeOfFailure, isBrokenPipe, UsageError } from './exit.ts';
import type { Terminal } from './terminal.ts';

export async function reportFailure(terminal: Terminal, error: unknown, { json }: { json: boolean }): Promise<number> {
  const exitCode = exitCodeOfFailure(error);
  // There is nobody left to tell.
  if (isBrokenPipe(error)) return exitCode;
  if (json) await terminal.outLines(JSON.stringify(failureToJson(error)));
  else await terminal.errLines(failureToText(error), 'red');
  return exitCode;
}

function failureToJson(error: unknown): unknown {
  if (error instanceof CellaError) {
    return { type: 'error', code: error.code, message: error.message, advice: error.advice };
  }
  const advice = error instanceof UsageError ? error.advice : '';
  return {
    type: 'error',
    code: error instanceof UsageError ? 'INVALID_OPTIONS' : 'UNEXPECTED',
    message: messageOf(error),
    advice,
  };
}

function failureToText(error: unknown): string {
  if (error instanceof CellaError || error instanceof UsageError) return `cella: ${error.message}\n${error.advice}`;
  // Nobody foresaw this one, so the place it came from is what helps.
  return `cella: unexpected error: ${error instanceof Error ? error.stack : String(error)}`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
