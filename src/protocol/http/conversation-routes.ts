import { Conversation } from '../conversation.ts';
import { endpoint, mayView } from './endpoint.ts';

export { Conversation } from '../conversation.ts';

export const ReadConversation = endpoint('get /v1/sessions/{id}/conversation', 'Agents', mayView, {
  summary: 'What the agents of a session have done, as the kept events add up: turns, items, plan, files, permissions',
  result: Conversation,
});
