/** What server and runner ask of each other: JSON-RPC 2.0, one message a line. See docs/internals/runner-protocol.md. */

import { z } from 'zod';
import { AgentEvent, PermissionOutcome } from './agent-events.ts';
import { AgentProfile } from './agent-profile.ts';
import { providers } from './enums.ts';
import type { RpcMethod, RpcNotification } from './rpc-message.ts';
import {
  AgentFailure,
  AgentName,
  ModelName,
  PermissionId,
  PermissionMode,
  TokenUsage,
  ToolNames,
  TurnId,
} from './turn.ts';
import { TerminalArgv, TerminalSize } from './workspace-models.ts';

export const absolutePath = z
  .string()
  .min(1)
  .max(4096)
  .refine((text) => text.startsWith('/') && !text.includes('\0'), 'must be an absolute path');
export const shortText = z.string().max(10_000);
export const RunnerSessionId = z.string().regex(/^ses_[0-9a-z]{16}$/);
export const Environment = z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string());
/** Random, of this session and task alone, and no good once the task has ended. */
export const SessionToken = z.string().regex(/^cst_[0-9A-Za-z_-]{1,200}$/);

/** `gateway`: the agent never holds a key. `just-in-time`: the runner asks for it, and gives it to the agent's process. */
export const KeyMode = z.enum(['gateway', 'just-in-time']);
export type KeyMode = z.infer<typeof KeyMode>;

/** Says on whose behalf, in every call of a runner. The server believes the token alone. */
export const taskFields = { session_token: SessionToken, session_id: RunnerSessionId, task_id: TurnId };

/** The agent's own name of the conversation. */
export const ConversationName = z.string().min(1).max(200);
export const ToolName = z.string().min(1).max(200);

export const TaskStatus = z.enum(['completed', 'failed', 'cancelled', 'timed_out']);
export type TaskStatus = z.infer<typeof TaskStatus>;

/** How a task ended. `message_count`: so many `report_message` were sent, and none is under way any more. */
export const TaskOutcome = z.object({
  status: TaskStatus,
  message_count: z.int().min(0),
  token_usage: TokenUsage.optional(),
  conversation: ConversationName.optional(),
  error: AgentFailure.optional(),
});
export type TaskOutcome = z.infer<typeof TaskOutcome>;

/** What somebody decided. `text` is the answer to a question. */
export const decisionFields = {
  outcome: PermissionOutcome,
  reason: shortText.optional(),
  text: z.string().max(100_000).optional(),
};

/** The first call, from the server: nothing else is taken before it. */
export const Hello = {
  method: 'hello',
  params: z.object({
    protocol_version: z.int(),
    session_id: RunnerSessionId,
    executor_id: z.string().min(1).max(200),
    key_mode: KeyMode,
    /** Where the gateway and the session's MCP server listen, as the runner sees it. */
    gateway_socket: absolutePath.optional(),
    /** Loaded ahead, so that the first prompt starts at once. */
    agentic_tool: AgentName.optional(),
    /** Whether whoever started the runner adopts what loses its parent, and nothing else came from that. */
    enclosed: z.boolean().optional(),
  }),
  result: z.object({ protocol_version: z.int(), pid: z.int(), agents: z.array(AgentName) }),
} as const satisfies RpcMethod;

export const Ping = {
  method: 'ping',
  params: z.object({}),
  result: z.object({
    uptime_ms: z.number().min(0),
    memory_bytes: z.int().min(0),
    /** The one that runs. */
    task_id: TurnId.optional(),
  }),
} as const satisfies RpcMethod;

/** One turn. The reply comes when it has ended, however it did; an error means that it never began. */
export const ExecutePrompt = {
  method: 'execute_prompt',
  params: z.object({
    ...taskFields,
    agentic_tool: AgentName,
    prompt: z.string(),
    cwd: absolutePath,
    /** Those of the agent's own tools that it may have; without it, all. */
    tools: ToolNames.optional(),
    permission_mode: PermissionMode,
    /** From the call to the end of the turn, the time in which a permission waits included. */
    timeout_ms: z.int().min(1),
    model: ModelName.optional(),
    /** The one to go on with; a new one without it. */
    conversation: ConversationName.optional(),
  }),
  result: TaskOutcome,
} as const satisfies RpcMethod;

/** A conversation as the agent keeps it, part by part from 0 on: all parts are of the moment at which the first was asked for. */
export const ReadTranscript = {
  method: 'read_transcript',
  params: z.object({
    agentic_tool: AgentName,
    cwd: absolutePath,
    home_dir: absolutePath,
    program_dir: absolutePath,
    conversation: ConversationName,
    part: z.int().min(0),
  }),
  /** `parts`: how many there are. */
  result: z.object({ found: z.boolean(), text: z.string(), parts: z.int().min(0) }),
} as const satisfies RpcMethod;

/** Works in every state, also while a permission waits. The reply comes at once; the turn ends with its own. */
export const StopTask = {
  method: 'stop_task',
  params: z.object({ task_id: TurnId, reason: shortText.optional() }),
  /** False where that task does not run. */
  result: z.object({ stopped: z.boolean() }),
} as const satisfies RpcMethod;

export const PermissionResolved = {
  method: 'permission_resolved',
  params: z.object({ task_id: TurnId, request_id: PermissionId, ...decisionFields }),
  /** False where nothing waits for it any more. */
  result: z.object({ accepted: z.boolean() }),
} as const satisfies RpcMethod;

/** Stops what runs, and ends the runner once the reply is sent. */
export const Shutdown = {
  method: 'shutdown',
  params: z.object({ reason: shortText.optional(), grace_ms: z.int().min(0).max(60_000).optional() }),
  result: z.object({}),
} as const satisfies RpcMethod;

/** The person's key for a provider. Refused where keys stay behind the gateway. */
export const GetApiKey = {
  method: 'get_api_key',
  params: z.object({ ...taskFields, provider: z.enum(providers) }),
  result: z.object({ api_key: z.string().min(1), base_url: z.url() }),
} as const satisfies RpcMethod;

/** Asks a person. Where a rule decides, the decision is in the reply; else `permission_resolved` brings it. */
export const RequestPermission = {
  method: 'request_permission',
  params: z.object({
    ...taskFields,
    item: z.string().min(1).max(200).optional(),
    tool: ToolName,
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
  result: z.object({ request_id: PermissionId, decision: z.object(decisionFields).optional() }),
} as const satisfies RpcMethod;

/** What the agent is given to work with. Paths are as the runner sees them. */
export const GetExecutionContext = {
  method: 'get_execution_context',
  params: z.object({ ...taskFields }),
  result: z.object({
    home_dir: absolutePath,
    /** Where the agent's program is installed. */
    program_dir: absolutePath,
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
  params: z.object({ ...taskFields, sequence: z.int().min(1), event: AgentEvent }),
  result: z.object({}),
} as const satisfies RpcMethod;

/** How far it is, for whoever waits: nothing is kept of it. */
export const ReportProgress = {
  method: 'report_progress',
  params: z.object({ ...taskFields, phase: z.enum(['loading', 'opening', 'prompting', 'stopping', 'closing']) }),
} as const satisfies RpcNotification;

/** Sent when the turn has ended and all its messages are durable; the token is no good after it. */
export const ReportCompletion = {
  method: 'report_completion',
  params: z.object({ ...taskFields, ...TaskOutcome.shape }),
  result: z.object({}),
} as const satisfies RpcMethod;

const TerminalId = z.string().min(1).max(128);

/** A program on a PTY of the environment; without `argv` the shell that there is. */
export const SpawnTerminal = {
  method: 'spawn_terminal',
  params: z.object({ terminal_id: TerminalId, cwd: absolutePath, size: TerminalSize, argv: TerminalArgv.optional() }),
  result: z.object({ pid: z.int() }),
} as const satisfies RpcMethod;

export const TerminateTerminal = {
  method: 'terminate_terminal',
  params: z.object({ terminal_id: TerminalId }),
  result: z.object({ terminated: z.boolean() }),
} as const satisfies RpcMethod;

/** What somebody types. */
export const TerminalInput = {
  method: 'terminal_input',
  params: z.object({ terminal_id: TerminalId, data: z.base64().max(64 * 1024) }),
} as const satisfies RpcNotification;

/** What it shows. */
export const TerminalOutput = {
  method: 'terminal_output',
  params: z.object({ terminal_id: TerminalId, data: z.base64().max(128 * 1024) }),
} as const satisfies RpcNotification;

export const TerminalExited = {
  method: 'terminal_exited',
  params: z.object({ terminal_id: TerminalId, code: z.int().optional(), signal: z.string().max(32).optional() }),
} as const satisfies RpcNotification;

/** Raised with every change that the other side must know of. Fields that only one side knows are left out by the other. */
export const PROTOCOL_VERSION = 2;

/** From the server to the runner. */
export const toRunner = [
  Hello,
  Ping,
  ExecutePrompt,
  ReadTranscript,
  StopTask,
  PermissionResolved,
  Shutdown,
  SpawnTerminal,
  TerminateTerminal,
  TerminalInput,
] as const;

/** From the runner to the server. */
export const toServer = [
  GetApiKey,
  RequestPermission,
  GetExecutionContext,
  ReportMessage,
  ReportProgress,
  ReportCompletion,
  TerminalOutput,
  TerminalExited,
] as const;
