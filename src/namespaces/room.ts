/** How many skills and artifacts one storage may hold: what is listed, searched and measured grows with them. */

import { CellaError } from '../protocol/errors.ts';

/** Where CELLA_MAX_SKILLS and CELLA_MAX_ARTIFACTS say nothing. */
export const MOST_THINGS = 10_000;

interface Room {
  readonly what: 'skills' | 'artifacts';
  readonly most: number;
  /** Those who come at the same time may be one too many. */
  holds(count: number): Promise<boolean>;
  /** Whether it takes the place of one that is there. */
  replaces(): Promise<boolean>;
}

/** QUOTA_EXCEEDED if there are so many already, and this is another one. */
export async function checkRoom({ what, most, holds, replaces }: Room): Promise<void> {
  if (!(await holds(most)) || (await replaces())) return;
  const setting = `CELLA_MAX_${what.toUpperCase()}`;
  const message = `There are ${most} ${what}, which is all that may be. Delete some, or have the operator raise ${setting}.`;
  throw new CellaError('QUOTA_EXCEEDED', message, { details: { quota: what, limit: most, setting } });
}
