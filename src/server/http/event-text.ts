/** An event as JSON, made once however many follow the session. */

import type { FeedItem } from '../../protocol/session-events.ts';

/** Events never change; those that nobody holds any more are forgotten here too. */
const texts = new WeakMap<FeedItem, string>();

export function eventText(event: FeedItem): string {
  const known = texts.get(event);
  if (known !== undefined) return known;
  const text = JSON.stringify(event);
  texts.set(event, text);
  return text;
}
