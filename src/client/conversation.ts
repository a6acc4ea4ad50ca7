/** What the agents of a session do, as it goes on: the server's state, and with each event the next one. */

import { ReadConversation } from '../protocol/api/agent-routes.ts';
import { type Conversation, reduceLogged } from '../protocol/conversation.ts';
import { type FollowOptions, follow } from './follow.ts';
import type { Link } from './link.ts';

/** The first is how it is; then one for each event that changes it. */
export async function* followConversation(
  link: Link,
  id: string,
  options: Omit<FollowOptions, 'after'>,
): AsyncGenerator<Conversation, void, undefined> {
  let { seq, state } = await link.call(ReadConversation, { params: { id } });
  yield { seq, state };
  for await (const item of follow(link, id, { ...options, after: seq })) {
    if (item.type === 'floor') continue;
    const next = reduceLogged(state, item);
    seq = item.seq;
    if (next === state) continue;
    state = next;
    yield { seq, state };
  }
}
