/** Calls that nobody waits for any more. */

import { CellaError } from '../../protocol/errors.ts';
import type { Parameter } from './parameter.ts';

export function stopped(callee: string): CellaError {
  return new CellaError('ABORTED', `tools.${callee} was stopped: nobody waits for it any more.`);
}

export function stopIfAborted(signal: AbortSignal, callee: string): void {
  if (signal.aborted) throw stopped(callee);
}

export function wrong(callee: string, parameters: readonly Parameter[], problem: string): CellaError {
  const known = parameters.map(({ name }) => name);
  const takes = known.length === 0 ? 'It takes no arguments.' : `It takes ${known.join(', ')}.`;
  return new CellaError('TOOL_ARGUMENTS', `tools.${callee} ${problem}. ${takes}`, { details: { tool: callee, known } });
}
