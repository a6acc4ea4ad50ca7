/** What kind of answer a provider begins with; one that must not be passed on is let go of before a byte of it is. */

import type { IncomingMessage } from 'node:http';
import { lasting } from './upstream.ts';

export interface AnswerKind {
  readonly streamed: boolean;
  readonly good: boolean;
}

/** To no other host than the one that was configured, whatever the answer says. */
export function kindOf(answer: IncomingMessage): AnswerKind {
  const { statusCode: status = 0, headers } = answer;
  const type = headers['content-type'] ?? '';
  const refused = (why: string) => {
    answer.destroy();
    return lasting(why);
  };
  if (status < 200 || (status >= 300 && status < 400))
    throw refused(`it answered with ${status}, which leads elsewhere`);
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') throw refused('its answer is compressed');
  const streamed = isStream(type);
  const good = status < 300;
  if (good && !streamed && !/^application\/json\b/i.test(type))
    throw refused('it answered with something else than JSON');
  return { streamed, good };
}

export const isStream = (type: string): boolean => /^text\/event-stream\b/i.test(type);
