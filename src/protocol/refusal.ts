/** A layer of isolation that could not be put in place, as an error with the way out. */

import { CellaError } from './errors.ts';

export function refusal(layer: string, message: string): CellaError {
  if (layer === 'workspace') {
    return new CellaError('WORKSPACE_NOT_WRITABLE', `The workspace could not be brought into the sandbox: ${message}.`);
  }
  if (layer === 'preload') return new CellaError('INVALID_OPTIONS', `preload: ${message}.`);
  if (layer === 'twin') return new CellaError('CHECKPOINT_GONE', `The kernel cannot go back: ${message}.`);
  if (layer === 'template') return new CellaError('TEMPLATE_FAILED', `A kernel could not be started: ${message}.`);
  return new CellaError(
    'SANDBOX_UNAVAILABLE',
    `The sandbox cannot be closed, so nothing was started: ${layer}: ${message}.`,
    {
      details: { layer },
    },
  );
}
