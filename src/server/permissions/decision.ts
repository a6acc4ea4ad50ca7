/** What becomes of a decision: the pattern of the rule that it makes, and what the late ones are told. */

import type { PermissionInfo } from '../../protocol/api/agent-routes.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Decided } from './contract.ts';
import { checkPattern, exactly, matches } from './pattern.ts';
import type { Subject } from './subject.ts';
import { defined } from './told.ts';

/** A rule that would not allow what it was made for is a mistake. */
export function patternOf(given: string | undefined, subject: Subject | undefined): string {
  const pattern = given ?? (subject && exactly(subject.text));
  if (!subject || pattern === undefined) {
    throw new CellaError('INVALID_REQUEST', 'No rule can be about this: it can be allowed once.');
  }
  checkPattern(pattern);
  if (matches(pattern, subject)) return pattern;
  const message = `The pattern ${JSON.stringify(pattern.slice(0, 200))} does not allow what was asked for.`;
  throw new CellaError('INVALID_REQUEST', message, { advice: 'See docs/permissions.md for what wildcards stand for.' });
}

/** One that is still pending is left to the next server. */
export function alreadyResolved({ id, state, resolution }: PermissionInfo): CellaError {
  if (state === 'pending') {
    const advice = 'Decide it when the server is there again.';
    return new CellaError('DAEMON_STOPPING', `The server ends, and the permission ${id} goes on waiting.`, { advice });
  }
  const { outcome = 'cancelled', by, at, reason, scope } = resolution ?? {};
  const who = by === undefined ? '' : ` by ${by}`;
  const message = `The permission ${id} was resolved before${who}: ${outcome}.`;
  return new CellaError('ALREADY_RESOLVED', message, { details: defined({ id, outcome, by, at, reason, scope }) });
}

export function decidedOf({ id, resolution }: PermissionInfo): Decided {
  // It is left to the next server, and nobody here waits for it.
  if (!resolution) return { id, outcome: 'cancelled', reason: 'the server is ending' };
  const { at, ...decided } = resolution;
  return { id, ...decided };
}
