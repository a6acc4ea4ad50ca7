/** The messages and transcript lines of Claude's program that Cella reads. The program is untrusted, so all are parsed. */

import { z } from 'zod';
import { tryParseJson } from '../../lib/json-scanner.ts';

const TextBlock = z.object({ type: z.literal('text'), text: z.string() });
const ThinkingBlock = z.object({ type: z.literal('thinking'), thinking: z.string() });
const ToolUseBlock = z.object({
  type: z.literal('tool_use'),
  id: z.string().min(1),
  name: z.string(),
  input: z.unknown().optional(),
});
const ToolResultBlock = z.object({
  type: z.literal('tool_result'),
  tool_use_id: z.string().min(1),
  content: z.union([z.string(), z.array(z.looseObject({ type: z.string(), text: z.string().optional() }))]).optional(),
  is_error: z.boolean().optional(),
});

export const Block = z.discriminatedUnion('type', [TextBlock, ThinkingBlock, ToolUseBlock, ToolResultBlock]);
export type Block = z.infer<typeof Block>;
export type ToolUse = z.infer<typeof ToolUseBlock>;
export type ToolResult = z.infer<typeof ToolResultBlock>;

/** Blocks are parsed one by one; unknown ones become raw events. */
const blocks = z.array(z.unknown());
const parent = z.string().nullish();

const AssistantMessage = z.object({ id: z.string().min(1), content: blocks, model: z.string().optional() });
/** The model name of texts that the program itself inserts. */
export const SYNTHETIC = '<synthetic>';
const UserMessage = z.object({ content: z.union([z.string(), blocks]) });

/** Why a tool did not run. */
export const ToolResultMeta = z.object({
  id: z.string(),
  non_execution_kind: z.string().optional(),
  permission_decision: z.looseObject({}).optional(),
});

const Init = z.object({
  type: z.literal('system'),
  subtype: z.literal('init'),
  session_id: z.string(),
  tools: z.array(z.string()).optional(),
  mcp_servers: z.array(z.object({ name: z.string(), status: z.string() })).optional(),
});
const Retry = z.object({
  type: z.literal('system'),
  subtype: z.literal('api_retry'),
  attempt: z.number(),
  max_retries: z.number(),
  retry_delay_ms: z.number(),
  error_status: z.number().nullish(),
});
const Informational = z.object({
  type: z.literal('system'),
  subtype: z.literal('informational'),
  content: z.string(),
});
const Notification = z.object({ type: z.literal('system'), subtype: z.literal('notification'), text: z.string() });
const Compacted = z.object({ type: z.literal('system'), subtype: z.literal('compact_boundary') });

const System = z.discriminatedUnion('subtype', [Init, Retry, Informational, Notification, Compacted]);

const Assistant = z.object({
  type: z.literal('assistant'),
  message: AssistantMessage,
  parent_tool_use_id: parent,
  aborted: z.boolean().optional(),
  /** Set if the program reports a failure in place of the model. */
  error: z.string().optional(),
});
const User = z.object({
  type: z.literal('user'),
  message: UserMessage,
  parent_tool_use_id: parent,
  tool_use_result: z.unknown().optional(),
  tool_result_meta: z.array(ToolResultMeta).optional(),
});

const index = z.int().min(0);
const StreamEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('message_start'), message: z.object({ id: z.string().min(1) }) }),
  z.object({ type: z.literal('content_block_start'), index, content_block: z.looseObject({ type: z.string() }) }),
  z.object({
    type: z.literal('content_block_delta'),
    index,
    delta: z.looseObject({ type: z.string(), text: z.string().optional(), thinking: z.string().optional() }),
  }),
]);
const Stream = z.object({ type: z.literal('stream_event'), event: StreamEvent, parent_tool_use_id: parent });

const count = z.number().min(0).catch(0);
export const ClaudeModelUsage = z.record(
  z.string(),
  z.object({
    inputTokens: count,
    outputTokens: count,
    cacheReadInputTokens: count,
    cacheCreationInputTokens: count,
    costUSD: count,
  }),
);
export type ClaudeModelUsage = z.infer<typeof ClaudeModelUsage>;

const SdkResult = z.object({
  type: z.literal('result'),
  subtype: z.string(),
  is_error: z.boolean(),
  session_id: z.string(),
  result: z.string().optional(),
  errors: z.array(z.string()).optional(),
  api_error_status: z.number().nullish(),
  /** Of this turn only, with subagents. */
  model_usage_since_last_result: ClaudeModelUsage.optional(),
});
export type SdkResult = z.infer<typeof SdkResult>;

export const SdkMessage = z.union([System, Assistant, User, Stream, SdkResult]);
export type SdkMessage = z.infer<typeof SdkMessage>;

const commonFields = {
  uuid: z.string().optional(),
  cwd: z.string().optional(),
  sessionId: z.string().optional(),
  /** Set in a subagent's transcript. */
  agentId: z.string().optional(),
  isMeta: z.boolean().optional(),
};

const AssistantLine = z.object({
  ...commonFields,
  type: z.literal('assistant'),
  message: AssistantMessage.extend({ stop_reason: z.string().nullish() }),
  apiBlockIndex: z.int().min(0).optional(),
  isAbortedMidStream: z.boolean().optional(),
  error: z.string().optional(),
});
export type AssistantLine = z.infer<typeof AssistantLine>;

const UserLine = z.object({
  ...commonFields,
  type: z.literal('user'),
  message: UserMessage,
  permissionMode: z.string().optional(),
  toolUseResult: z.unknown().optional(),
  toolDenialKind: z.string().optional(),
  permissionDecision: z.looseObject({}).optional(),
});
export type UserLine = z.infer<typeof UserLine>;

/** Totals since the start of the conversation, written when the program ends. */
const CostLine = z.object({ ...commonFields, type: z.literal('cost-state'), modelUsage: ClaudeModelUsage });
const SystemLine = z.object({
  ...commonFields,
  type: z.literal('system'),
  subtype: z.enum(['compact_boundary', 'informational']),
  content: z.string().optional(),
});

const ClaudeLine = z.discriminatedUnion('type', [AssistantLine, UserLine, CostLine, SystemLine]);
export type ClaudeLine = z.infer<typeof ClaudeLine>;

export function parseLines(transcript: string): ClaudeLine[] {
  return transcript.split('\n').flatMap((text) => ClaudeLine.safeParse(tryParseJson(text)).data ?? []);
}
