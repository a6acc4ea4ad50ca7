/** The fields that several calls between daemon and runner share. */

import { z } from 'zod';
import { PermissionOutcome } from './events.ts';
import { AgentFailure, TokenUsage, TurnId } from './names.ts';

export const path = z
  .string()
  .min(1)
  .max(4096)
  .refine((text) => text.startsWith('/') && !text.includes('\0'), 'must be an absolute path');
export const shortText = z.string().max(10_000);
export const SessionId = z.string().regex(/^ses_[0-9a-z]{16}$/);
export const Environment = z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string());
/** Random, of this session and task alone, and no good once the task has ended. */
export const SessionToken = z.string().regex(/^cst_[0-9A-Za-z_-]{1,200}$/);

/** `gateway`: the agent never holds a key. `just-in-time`: the runner asks for it, and gives it to the agent's process. */
export const KeyMode = z.enum(['gateway', 'just-in-time']);
export type KeyMode = z.infer<typeof KeyMode>;

/** Says on whose behalf, in every call of a runner. The daemon believes the token alone. */
export const ofTask = { session_token: SessionToken, session_id: SessionId, task_id: TurnId };

/** The agent's own name of the conversation. */
export const Conversation = z.string().min(1).max(200);
export const Tool = z.string().min(1).max(200);

export const TaskStatus = z.enum(['completed', 'failed', 'cancelled', 'timed_out']);
export type TaskStatus = z.infer<typeof TaskStatus>;

/** How a task ended. `message_count`: so many `report_message` were sent, and none is under way any more. */
export const TaskOutcome = z.object({
  status: TaskStatus,
  message_count: z.int().min(0),
  token_usage: TokenUsage.optional(),
  conversation: Conversation.optional(),
  error: AgentFailure.optional(),
});
export type TaskOutcome = z.infer<typeof TaskOutcome>;

/** What somebody decided. `text` is the answer to a question. */
export const Decision = {
  outcome: PermissionOutcome,
  reason: shortText.optional(),
  text: z.string().max(100_000).optional(),
};
