/** Turns of a session's agent as they cross the wire. */

import { z } from 'zod';
import { AgentFailure, AgentName, PermissionMode, TokenUsage, TurnId, TurnStatus } from '../agent/names.ts';

/** `queued` waits for the turn before it; the others are those of its end. */
export const TurnState = z.enum(['queued', 'running', ...TurnStatus.options]);
export type TurnState = z.infer<typeof TurnState>;

export const TurnInfo = z
  .object({
    id: TurnId,
    agent: AgentName,
    mode: PermissionMode,
    model: z.string().optional(),
    profile: z.string().optional(),
    /** The beginning of it, where it is long; all of it is in the events. */
    prompt: z.string(),
    /** The id of the user who asked. */
    by: z.string(),
    status: TurnState,
    /** While it is `queued`: how many are before it, with the one that runs. */
    ahead: z.int().min(0).optional(),
    /** Milliseconds since 1970, like those below. */
    queuedAt: z.number(),
    startedAt: z.number().optional(),
    endedAt: z.number().optional(),
    /** The number of its `turn_started`. */
    firstSeq: z.int().optional(),
    /** The agent's own conversation: the next turn goes on with it. */
    conversation: z.string().optional(),
    /** What the agent said last; its beginning where it is long. */
    text: z.string().optional(),
    usage: TokenUsage.optional(),
    error: AgentFailure.optional(),
  })
  .meta({ id: 'Turn' });
export type TurnInfo = z.infer<typeof TurnInfo>;

/** Whether it is over. */
export function isOver({ status }: Pick<TurnInfo, 'status'>): boolean {
  return status !== 'queued' && status !== 'running';
}

/** One turn, and whether another request with the same Idempotency-Key has brought it. */
export const Prompted = TurnInfo.extend({ joined: z.boolean() }).meta({ id: 'Prompted' });

export type Prompted = z.infer<typeof Prompted>;

/** `ready`: it can be prompted. `version`: the one that its turns are worked with. */
export const CodingAgent = z
  .object({ agent: AgentName, title: z.string(), ready: z.boolean(), version: z.string().optional() })
  .meta({ id: 'CodingAgent' });

export type CodingAgent = z.infer<typeof CodingAgent>;

/** The text is the agent's own, in its own form. */
export const Transcript = z
  .object({ agent: AgentName, conversation: z.string(), revision: z.int(), text: z.string() })
  .meta({ id: 'Transcript' });

export type Transcript = z.infer<typeof Transcript>;
