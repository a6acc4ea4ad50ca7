/** The reducer over the log of a session, where agents are not all there is: what is no event of theirs changes nothing. */

import type { ConversationState } from './conversation.ts';
import { AgentLogEvent } from './events.ts';
import { reduce } from './reduce.ts';

const types: ReadonlySet<string> = new Set(AgentLogEvent.options.flatMap(({ shape }) => [...shape.type.values]));

/** Its number and its time are the log's, and no part of the state. */
export function reduceLogged(state: ConversationState, logged: { readonly type: string }): ConversationState {
  const event = types.has(logged.type) ? AgentLogEvent.safeParse(logged) : undefined;
  return event?.success ? reduce(state, event.data) : state;
}
