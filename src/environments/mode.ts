/** Which modes of an agent are for which environments: without any question only where it cannot reach the host. */

import type { PermissionMode } from '../protocol/agent/names.ts';
import { CellaError } from '../protocol/errors.ts';

/** `BYPASS_REFUSED` where an agent that is never asked could do anything to the machine. */
export function checkMode(
  mode: PermissionMode,
  environment: { readonly kind: string; readonly isolated: boolean },
): void {
  if (mode !== 'bypass' || environment.isolated) return;
  const { kind } = environment;
  throw new CellaError('BYPASS_REFUSED', `The mode bypass needs an isolated environment, and ${kind} is none.`, {
    details: { mode, environment: kind },
  });
}
