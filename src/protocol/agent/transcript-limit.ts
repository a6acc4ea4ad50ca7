/** How much of a conversation is kept. */

import { CellaError } from '../errors.ts';

export const MOST_TRANSCRIPT = 64 * 1024 * 1024;

/** TOO_LARGE past `most` characters. */
export function checkTranscriptLength(conversation: string, length: number, most = MOST_TRANSCRIPT): void {
  if (length <= most) return;
  const message = `The transcript of ${conversation.slice(0, 80)} has more than ${most} characters.`;
  throw new CellaError('TOO_LARGE', message, { advice: 'Begin another conversation.' });
}
