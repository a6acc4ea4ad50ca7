/** Limits that skills, artifacts and tools share: how many there may be, and how long a search query may be. */

import { CellaError } from '../protocol/errors.ts';

/** Where CELLA_MAX_SKILLS and CELLA_MAX_ARTIFACTS say nothing. */
export const DEFAULT_MAX_COUNT = 10_000;

interface CountLimit {
  readonly what: 'skills' | 'artifacts';
  readonly most: number;
  /** Concurrent callers may exceed the limit a little. */
  holds(count: number): Promise<boolean>;
  /** Whether it takes the place of one that is there. */
  replaces(): Promise<boolean>;
}

/** QUOTA_EXCEEDED if the limit is reached and this would be another one. */
export async function checkCountLimit({ what, most, holds, replaces }: CountLimit): Promise<void> {
  if (!(await holds(most)) || (await replaces())) return;
  const setting = `CELLA_MAX_${what.toUpperCase()}`;
  const message = `There are ${most} ${what}, which is all that may be. Delete some, or have the operator raise ${setting}.`;
  throw new CellaError('QUOTA_EXCEEDED', message, { details: { quota: what, limit: most, setting } });
}

const MOST_CHARACTERS = 1000;

/** `INVALID_OPTIONS` if it is longer. */
export function checkQuery(query: string, where: string): void {
  if (query.length <= MOST_CHARACTERS) return;
  const message = `The query for ${where} has ${query.length} characters, and may have ${MOST_CHARACTERS} at most.`;
  throw new CellaError('INVALID_OPTIONS', message, { advice: 'Search with a few words that say what it is about.' });
}
