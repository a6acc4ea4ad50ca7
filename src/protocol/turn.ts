/** Turns of coding agents: ids, modes, status, tokens and cost, and the agents that a session can use. */

import { z } from 'zod';
import { CellaError } from './errors.ts';

/** Which coding agent: a name of the list in src/agents. */
export const AgentName = z.string().regex(/^[a-z][a-z0-9-]{0,31}$/, 'must be the name of an agent, like claude');
export type AgentName = z.infer<typeof AgentName>;

/** A provider's name of a model, or the agent's own word for one: it becomes a word of a command line, and a part of a request. */
export const ModelName = z
  .string()
  .regex(/^[A-Za-z0-9][\w./:@[\]-]{0,199}$/, 'must be the name of a model, like claude-sonnet-4-5');

/** An agent's own name of one of its tools, like Bash: several stand behind each other as one word of a command line. */
const ToolName = z.string().regex(/^[A-Za-z]\w{0,99}$/, 'must be the name of a tool, like Bash');
/** Those of its own tools that an agent may use. */
export const ToolNames = z.array(ToolName).max(100).readonly();

/** One prompt and all that came of it. */
export const TurnId = z.string().regex(/^trn_[0-9a-z]{16}$/);
export const PermissionId = z.string().regex(/^prm_[0-9a-z]{16}$/, 'must be prm_ and 16 letters and digits');

/**
 * What an agent may do without being told so. `ask`: read. `auto-edit`: change files of the workspace. `plan`: nothing
 * is changed. `bypass`: everything; only where the environment is isolated.
 */
export const PermissionMode = z.enum(['ask', 'auto-edit', 'plan', 'bypass']);
export type PermissionMode = z.infer<typeof PermissionMode>;

export const TurnStatus = z.enum(['completed', 'failed', 'cancelled', 'timed_out', 'interrupted']);
export type TurnStatus = z.infer<typeof TurnStatus>;

/** Tokens of one turn. Those from a cache and those written to one are not among `input`. */
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
export function isTurnOver({ status }: Pick<TurnInfo, 'status'>): boolean {
  return status !== 'queued' && status !== 'running';
}

/** One turn, and whether an earlier request with the same Idempotency-Key created it. */
export const Prompted = TurnInfo.extend({ replayed: z.boolean() }).meta({ id: 'Prompted' });

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

const count = z.int().min(0);

/** Tokens from a cache and those written to one are not among `input`. */
const usageFields = {
  calls: count,
  input: count,
  output: count,
  cacheRead: count,
  cacheWrite: count,
  /** Of the calls whose model has a price. */
  costUsd: z.number().min(0),
  /** Calls whose model has none. */
  unpriced: count,
  /** Calls that ended before the provider told what they had used. */
  estimated: count,
};

export const ModelUsage = z.object({ ...usageFields, models: z.record(z.string(), z.object(usageFields)) });
export type ModelUsage = z.infer<typeof ModelUsage>;
export type UsageCounts = Omit<ModelUsage, 'models'>;

/** `day` is one in UTC: `2026-11-16`. */
export const DayUsage = ModelUsage.extend({ day: z.string() });
export type DayUsage = z.infer<typeof DayUsage>;

export const MOST_TRANSCRIPT = 64 * 1024 * 1024;

/** TOO_LARGE past `most` characters. */
export function checkTranscriptLength(conversation: string, length: number, most = MOST_TRANSCRIPT): void {
  if (length <= most) return;
  const message = `The transcript of ${conversation.slice(0, 80)} has more than ${most} characters.`;
  throw new CellaError('TOO_LARGE', message, { advice: 'Begin another conversation.' });
}
