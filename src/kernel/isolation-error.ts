/** A layer of isolation that could not be put in place, as an error with the way out. */

import { CellaError } from '../protocol/errors.ts';

/** The isolation is there: the system has no room for another process at the moment. */
const NO_ROOM = /Resource temporarily unavailable|BlockingIOError|can't start new thread|Cannot allocate memory/;
const NO_ROOM_ADVICE =
  'There is no room for another process. End some, or raise the limit: `ulimit -u`, `TasksMax=` of a service, `pids.max` of a control group. Then try again.';

export function isolationError(layer: string, message: string): CellaError {
  if (layer === 'workspace') {
    return new CellaError('WORKSPACE_NOT_WRITABLE', `The workspace could not be brought into the sandbox: ${message}.`);
  }
  if (layer === 'preload') return new CellaError('INVALID_OPTIONS', `preload: ${message}.`);
  if (layer === 'snapshot') return new CellaError('CHECKPOINT_GONE', `The kernel cannot go back: ${message}.`);
  if (layer === 'template') return new CellaError('TEMPLATE_FAILED', `A kernel could not be started: ${message}.`);
  return new CellaError(
    'SANDBOX_UNAVAILABLE',
    `The sandbox cannot be closed, so nothing was started: ${layer}: ${message}.`,
    { details: { layer }, ...(NO_ROOM.test(message) ? { advice: NO_ROOM_ADVICE } : {}) },
  );
}
