/** What a request says by a name alone, and a provider puts in: a conversation or a prompt that it keeps. */

import type { Wire } from './doors.ts';

const names: Readonly<Record<Wire, readonly string[]>> = {
  messages: [],
  responses: ['previous_response_id', 'conversation', 'prompt'],
  chat: [],
  gemini: ['cachedContent', 'cached_content'],
  free: [],
};

/** The name under which it is said. */
export function referredIn(
  wire: Wire,
  values: (names: readonly string[]) => Record<string, unknown>,
): string | undefined {
  const said = Object.entries(values(names[wire]));
  return said.find(([, value]) => value !== null)?.[0];
}
