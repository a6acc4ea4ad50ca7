/** How long a query may be: what it costs grows with its words. */

import { CellaError } from '../../protocol/errors.ts';

const MOST_CHARACTERS = 1000;

/** `INVALID_OPTIONS` where it is longer. */
export function checkQuery(query: string, where: string): void {
  if (query.length <= MOST_CHARACTERS) return;
  const message = `The query for ${where} has ${query.length} characters, and may have ${MOST_CHARACTERS} at most.`;
  throw new CellaError('INVALID_OPTIONS', message, { advice: 'Search with a few words that say what it is about.' });
}
