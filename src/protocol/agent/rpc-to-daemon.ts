/** What a runner asks of the daemon. */

import { z } from 'zod';
import type { RpcMethod, RpcNotification } from '../rpc-message.ts';
import { AgentEvent } from './events.ts';
import { PermissionId } from './names.ts';
import { AgentProfile } from './profile.ts';
import { Decision, Environment, ofTask, path, shortText, TaskOutcome, Tool } from './rpc-words.ts';

/** The person's key for a provider. Refused where keys stay behind the gateway. */
export const GetApiKey = {
  method: 'get_api_key',
  params: z.object({ ...ofTask, provider: z.enum(['anthropic', 'openai', 'gemini']) }),
  result: z.object({ api_key: z.string().min(1), base_url: z.url() }),
} as const satisfies RpcMethod;

/** Asks a person. Where a rule decides, the decision is in the reply; else `permission_resolved` brings it. */
export const RequestPermission = {
  method: 'request_permission',
  params: z.object({
    ...ofTask,
    item: z.string().min(1).max(200).optional(),
    tool: Tool,
    summary: shortText,
    input: z.unknown().optional(),
    pattern: z.string().max(1000).optional(),
    question: z
      .object({
        text: shortText,
        options: z.array(z.object({ label: shortText, description: shortText.optional() })).optional(),
      })
      .optional(),
  }),
  result: z.object({ request_id: PermissionId, decision: z.object(Decision).optional() }),
} as const satisfies RpcMethod;

/** What the agent is given to work with. Paths are as the runner sees them. */
export const GetExecutionContext = {
  method: 'get_execution_context',
  params: z.object({ ...ofTask }),
  result: z.object({
    home_dir: path,
    /** Where the agent's program is installed. */
    program_dir: path,
    /** Variables for its process, beside those that the runner itself was started with. */
    env: Environment,
    profile: AgentProfile,
    /** The name that the agent knows the session's own MCP server by; without it, it has none. */
    session_mcp: z.string().min(1).max(64).optional(),
  }),
} as const satisfies RpcMethod;

/** One event of the turn. Numbers begin at 1 without gaps or repeats; the reply says that it is durable. */
export const ReportMessage = {
  method: 'report_message',
  params: z.object({ ...ofTask, sequence: z.int().min(1), event: AgentEvent }),
  result: z.object({}),
} as const satisfies RpcMethod;

/** How far it is, for whoever waits: nothing is kept of it. */
export const ReportProgress = {
  method: 'report_progress',
  params: z.object({ ...ofTask, phase: z.enum(['loading', 'opening', 'prompting', 'stopping', 'closing']) }),
} as const satisfies RpcNotification;

/** Sent when the turn has ended and all its messages are durable; the token is no good after it. */
export const ReportCompletion = {
  method: 'report_completion',
  params: z.object({ ...ofTask, ...TaskOutcome.shape }),
  result: z.object({}),
} as const satisfies RpcMethod;
