/** Turns of coding agents: prompts, results, tokens and cost, and the agents that a session can use. */

import { z } from 'zod';
import { messageOf } from '../lib/values.ts';
import type { ErrorCode } from './error-codes.ts';
import { CellaError } from './errors.ts';
import { boundedList } from './parse.ts';

/** The name of a coding agent in src/agents. */
export const AgentName = z.string().regex(/^[a-z][a-z0-9-]{0,31}$/, 'must be the name of an agent, like claude');
export type AgentName = z.infer<typeof AgentName>;

/** A provider's name for a model, or the agent's own. Strict, because it becomes an argument and a part of a request. */
export const ModelName = z
  .string()
  .regex(/^[A-Za-z0-9][\w./:@[\]-]{0,199}$/, 'must be the name of a model, like claude-sonnet-4-5');

/** An agent's own name for one of its tools, like Bash. Strict, because a list of them becomes one argument. */
const ToolName = z.string().regex(/^[A-Za-z]\w{0,99}$/, 'must be the name of a tool, like Bash');
/** The agent's own tools that it may use. */
export const ToolNames = boundedList(z.array(ToolName).max(100), 100).readonly();

/** One prompt and everything that follows from it. */
export const TurnId = z.string().regex(/^trn_[0-9a-z]{16}$/);
export const PermissionId = z.string().regex(/^prm_[0-9a-z]{16}$/, 'must be prm_ and 16 letters and digits');

/**
 * What an agent may do without asking. `ask`: read. `auto-edit`: also change files of the workspace. `plan`: change
 * nothing. `bypass`: everything; only in an isolated environment.
 */
export const PermissionMode = z.enum(['ask', 'auto-edit', 'plan', 'bypass']);
export type PermissionMode = z.infer<typeof PermissionMode>;

/** The agent's own name for a conversation. */
export const ConversationName = z.string().min(1).max(200);

/** What a prompt says. */
export const PromptFields = z.object({
  prompt: z.string(),
  mode: PermissionMode,
  model: ModelName.optional(),
  /** All of the agent's own tools if undefined. */
  tools: ToolNames.optional(),
});
export type PromptFields = z.infer<typeof PromptFields>;

export const TurnStatus = z.enum(['completed', 'failed', 'cancelled', 'timed_out', 'interrupted']);
export type TurnStatus = z.infer<typeof TurnStatus>;

/** Tokens of one turn. `input` does not include tokens read from a cache or written to one. */
export const TokenUsage = z.object({
  input: z.int().min(0),
  output: z.int().min(0),
  cacheRead: z.int().min(0).default(0),
  cacheWrite: z.int().min(0).default(0),
  costUsd: z.number().min(0).optional(),
  model: z.string().optional(),
});
export type TokenUsage = z.infer<typeof TokenUsage>;

export const AgentFailure = z.object({ code: z.string(), message: z.string(), advice: z.string() });

export type AgentFailure = z.infer<typeof AgentFailure>;

/** Only code, message and advice are sent, never a stack. `unknown`: the code for errors that have none. */
export function toAgentFailure(cause: unknown, unknown: ErrorCode = 'RUNNER_FAILED'): AgentFailure {
  const error = cause instanceof CellaError ? cause : new CellaError(unknown, messageOf(cause));
  const { code, message, advice } = error.toJSON();
  return { code, message, advice };
}

/** How a turn ended. */
export const TurnResult = z.object({
  status: TurnStatus,
  /** The next turn continues it. */
  conversation: ConversationName.optional(),
  usage: TokenUsage.optional(),
  error: AgentFailure.optional(),
});
export type TurnResult = z.infer<typeof TurnResult>;

/** `queued`: waits for the turn before it. */
export const TurnState = z.enum(['queued', 'running', ...TurnStatus.options]);
export type TurnState = z.infer<typeof TurnState>;

export const TurnInfo = z
  .object({
    id: TurnId,
    agent: AgentName,
    mode: PermissionMode,
    model: z.string().optional(),
    profile: z.string().optional(),
    /** Truncated if it is long; the events have all of it. */
    prompt: z.string(),
    /** The id of the user who prompted. */
    by: z.string(),
    status: TurnState,
    /** While it is `queued`: how many turns are before it, including the running one. */
    ahead: z.int().min(0).optional(),
    /** Milliseconds since 1970, like those below. */
    queuedAt: z.number(),
    startedAt: z.number().optional(),
    endedAt: z.number().optional(),
    /** The sequence number of its `turn_started`. */
    firstSeq: z.int().optional(),
    /** The agent's own conversation. The next turn continues it. */
    conversation: z.string().optional(),
    /** What the agent said last; truncated if it is long. */
    text: z.string().optional(),
    usage: TokenUsage.optional(),
    error: AgentFailure.optional(),
  })
  .meta({ id: 'Turn' });
export type TurnInfo = z.infer<typeof TurnInfo>;

/** Whether it has ended. */
export function isTurnOver({ status }: Pick<TurnInfo, 'status'>): boolean {
  return status !== 'queued' && status !== 'running';
}

/** A turn, and whether an earlier request with the same Idempotency-Key created it. */
export const Prompted = TurnInfo.extend({ replayed: z.boolean() }).meta({ id: 'Prompted' });

export type Prompted = z.infer<typeof Prompted>;

/** `ready`: it can be prompted. `version`: the installed version that turns use. */
export const CodingAgent = z
  .object({ agent: AgentName, title: z.string(), ready: z.boolean(), version: z.string().optional() })
  .meta({ id: 'CodingAgent' });

export type CodingAgent = z.infer<typeof CodingAgent>;

/** The text is in the agent's own format. */
export const Transcript = z
  .object({ agent: AgentName, conversation: z.string(), revision: z.int(), text: z.string() })
  .meta({ id: 'Transcript' });

export type Transcript = z.infer<typeof Transcript>;

const count = z.int().min(0);

/** `input` does not include tokens read from a cache or written to one. */
const usageFields = {
  calls: count,
  input: count,
  output: count,
  cacheRead: count,
  cacheWrite: count,
  /** The cost of calls whose model has a price. */
  costUsd: z.number().min(0),
  /** Calls whose model has no price. */
  unpriced: count,
  /** Calls that ended before the provider reported their usage. */
  estimated: count,
};

export const ModelUsage = z.object({ ...usageFields, models: z.record(z.string(), z.object(usageFields)) });
export type ModelUsage = z.infer<typeof ModelUsage>;
export type UsageCounts = Omit<ModelUsage, 'models'>;

/** `day` is in UTC: `2026-11-16`. */
export const DayUsage = ModelUsage.extend({ day: z.string() });
export type DayUsage = z.infer<typeof DayUsage>;

export const MOST_TRANSCRIPT = 64 * 1024 * 1024;

/** Throws `TOO_LARGE` above `most` characters. */
export function checkTranscriptLength(conversation: string, length: number, most = MOST_TRANSCRIPT): void {
  if (length <= most) return;
  const message = `The transcript of ${conversation.slice(0, 80)} has more than ${most} characters.`;
  throw new CellaError('TOO_LARGE', message, { advice: 'Start another conversation.' });
}
