/** What everybody is told who asks for something that a server which is ending no longer does. */

import { CellaError } from '../protocol/errors.ts';

/** When another server, or this one after its restart, may take it. */
const RETRY_AFTER_MS = 5000;

/** `advice`: what to do about it, where that is not to ask again. */
export function stopping(advice?: string): CellaError {
  return new CellaError('DAEMON_STOPPING', 'The server is ending and takes no new work.', {
    details: { retryAfterMs: RETRY_AFTER_MS },
    ...(advice === undefined ? {} : { advice }),
  });
}
