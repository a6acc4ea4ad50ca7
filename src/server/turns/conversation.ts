/** What the agents of a session have done so far: the events of its log that are kept, added up. */

import type { Conversation } from '../../protocol/api/agent-routes.ts';
import { emptyConversation, reduceLogged } from '../../protocol/conversation.ts';
import type { ServerSession } from '../sessions/session-types.ts';

export async function conversationOf(session: Pick<ServerSession, 'events' | 'position'>): Promise<Conversation> {
  const { floor, last } = await session.position();
  let [state, seq] = [emptyConversation, floor];
  if (last <= floor) return { seq: last, state };
  for await (const item of session.events({ after: floor })) {
    if (item.type === 'floor') continue;
    state = reduceLogged(state, item);
    seq = item.seq;
    if (seq >= last) break;
  }
  return { seq, state };
}
