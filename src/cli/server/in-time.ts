/** A connection to a server, unless it takes too long: a process that is stopped takes one, and never answers. */

import type { Client } from '../../client/index.ts';
import { CellaError } from '../../protocol/errors.ts';

/** `DAEMON_UNREACHABLE` with this message after so long. */
export async function inTime(connecting: Promise<Client>, ms: number, message: string): Promise<Client> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new CellaError('DAEMON_UNREACHABLE', message)), ms);
  return await Promise.race([connecting, late.promise]).finally(() => clearTimeout(timer));
}
