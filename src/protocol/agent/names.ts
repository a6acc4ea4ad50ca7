/** The words that agents, runner, daemon and clients share: ids, modes, and how a turn ended. */

import { z } from 'zod';

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
