/** Errors that calls of every kind of tool share. */

import { CellaError } from '../../protocol/errors.ts';
import type { Parameter } from './parameters.ts';

export function abortedError(callee: string): CellaError {
  return new CellaError('ABORTED', `tools.${callee} was stopped: nobody waits for it any more.`);
}

export function throwIfAborted(signal: AbortSignal, callee: string): void {
  if (signal.aborted) throw abortedError(callee);
}

export function argumentError(callee: string, parameters: readonly Parameter[], problem: string): CellaError {
  const known = parameters.map(({ name }) => name);
  const takes = known.length === 0 ? 'It takes no arguments.' : `It takes ${known.join(', ')}.`;
  return new CellaError('TOOL_ARGUMENTS', `tools.${callee} ${problem}. ${takes}`, { details: { tool: callee, known } });
}
