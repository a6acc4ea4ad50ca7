/** How much of one kind a session may have open. */

import { CellaError } from '../../protocol/errors.ts';
import { AtOnce } from '../at-once.ts';

/** QUOTA_EXCEEDED where it is one too many. */
export function perSession(what: string, most: number): AtOnce {
  const message = `The session has ${most} open ${what} already.`;
  return new AtOnce(most, () => new CellaError('QUOTA_EXCEEDED', message, { details: { most } }));
}
