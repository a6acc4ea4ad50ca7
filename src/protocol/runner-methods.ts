/** The calls between server and runner: JSON-RPC 2.0, one message per line. See docs/internals/runner.md. */

import { z } from 'zod';
import { AgentEvent } from './agent-events.ts';
import { AgentProfile } from './agent-profile.ts';
import { keyModes, providers } from './enums.ts';
import { boundedList } from './parse.ts';
import { PermissionRequest, Resolution } from './permission.ts';
import type { RpcMethod, RpcNotification } from './rpc-message.ts';
import {
  AgentFailure,
  AgentName,
  ConversationName,
  PermissionId,
  PromptFields,
  TokenUsage,
  TurnId,
  TurnResult,
} from './turn.ts';
import { TerminalArgv, TerminalSize } from './workspace-models.ts';

export const absolutePath = z
  .string()
  .min(1)
  .max(4096)
  .refine((text) => text.startsWith('/') && !text.includes('\0'), 'must be an absolute path');
const MOST_OPTIONS = 1000;
const MOST_AGENTS = 100;
const shortText = z.string().max(10_000);
const RunnerSessionId = z.string().regex(/^ses_[0-9a-z]{16}$/);
export const EnvironmentVariables = z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string());
/** Random; valid only for one session and turn, and until the turn has ended. */
const SessionToken = z.string().regex(/^cst_[0-9A-Za-z_-]{1,200}$/);

/** In every call of a runner: the turn that it speaks for. The server trusts only the token. */
export const TurnClaim = z.object({ session_token: SessionToken, session_id: RunnerSessionId, turn_id: TurnId });
export type TurnClaim = z.infer<typeof TurnClaim>;

/** How a turn ended, as a runner says; bounded. `message_count`: how many `report_message` were sent. */
export const TurnReport = TurnResult.extend({
  usage: TokenUsage.extend({ model: shortText.optional() }).optional(),
  error: AgentFailure.extend({ code: shortText, message: shortText, advice: shortText }).optional(),
  message_count: z.int().min(0),
});
export type TurnReport = z.infer<typeof TurnReport>;

/** The part of a resolution that the agent gets. */
export const Decision = Resolution.pick({ outcome: true, reason: true, text: true });
export type Decision = z.infer<typeof Decision>;

/** Bounded, because a runner sends it. */
const PermissionFields = PermissionRequest.extend({
  item: z.string().min(1).max(200).optional(),
  tool: z.string().min(1).max(200),
  summary: shortText,
  pattern: z.string().max(1000).optional(),
  question: z
    .object({
      text: shortText,
      options: boundedList(
        z.array(z.object({ label: shortText, description: shortText.optional() })).max(MOST_OPTIONS),
        MOST_OPTIONS,
      ).optional(),
    })
    .optional(),
});

/** The first call. Before it, a runner only answers `ping`. */
export const Hello = {
  method: 'hello',
  params: z.object({
    protocol_version: z.int(),
    session_id: RunnerSessionId,
    runner_id: z.string().min(1).max(200),
    /** `gateway`: the agent never holds a key. `just-in-time`: the runner asks for it and gives it to the agent's process. */
    key_mode: z.enum(keyModes),
    /** The socket of the gateway and the session's MCP server, as the runner sees it. */
    gateway_socket: absolutePath.optional(),
    /** Loaded now, so that the first prompt starts at once. */
    agent: AgentName.optional(),
    /** Whether the runner's parent adopts orphaned processes, and has no others. */
    isolated: z.boolean().optional(),
  }),
  result: z.object({
    protocol_version: z.int(),
    pid: z.int(),
    agents: boundedList(z.array(AgentName).max(MOST_AGENTS), MOST_AGENTS),
  }),
} as const satisfies RpcMethod;

export const Ping = {
  method: 'ping',
  params: z.object({}),
  result: z.object({
    uptime_ms: z.number().min(0),
    memory_bytes: z.int().min(0),
    /** The running turn. */
    turn_id: TurnId.optional(),
  }),
} as const satisfies RpcMethod;

/** Runs a turn. The reply comes when it has ended, in whatever way; an error means that it never started. */
export const ExecutePrompt = {
  method: 'execute_prompt',
  params: z.object({
    ...TurnClaim.shape,
    ...PromptFields.shape,
    agent: AgentName,
    cwd: absolutePath,
    /** The conversation to continue; a new one if undefined. */
    conversation: ConversationName.optional(),
  }),
  result: TurnReport,
} as const satisfies RpcMethod;

/** The agent and its folders, as the runner sees them. */
const agentFolders = { agent: AgentName, cwd: absolutePath, home_dir: absolutePath, program_dir: absolutePath };

/**
 * Prepares the agent's folder before a turn: its profile, and the conversation to continue. A long transcript comes in
 * parts, one call for each, in order; the runner writes it with the last.
 */
export const SetupSession = {
  method: 'setup_session',
  params: z.object({
    ...agentFolders,
    profile: AgentProfile,
    transcript: z
      .object({ conversation: ConversationName, text: z.string(), part: z.int().min(0), parts: z.int().min(1) })
      .optional(),
  }),
  /** `none`: no transcript was given. `partial`: more parts must come. `kept`: the agent has a newer one. */
  result: z.object({ transcript: z.enum(['none', 'partial', 'written', 'kept']) }),
} as const satisfies RpcMethod;

/** A conversation as the agent stores it, in parts. All parts show the state at the time part 0 was requested. */
export const ReadTranscript = {
  method: 'read_transcript',
  params: z.object({ ...agentFolders, conversation: ConversationName, part: z.int().min(0) }),
  result: z.object({ found: z.boolean(), text: z.string(), parts: z.int().min(0) }),
} as const satisfies RpcMethod;

/** Works in every state, also while a permission waits. The reply comes at once; `execute_prompt` has its own. */
export const StopTurn = {
  method: 'stop_turn',
  params: z.object({ turn_id: TurnId, reason: shortText.optional() }),
  /** False if that turn is not running. */
  result: z.object({ stopped: z.boolean() }),
} as const satisfies RpcMethod;

export const PermissionResolved = {
  method: 'permission_resolved',
  params: z.object({ turn_id: TurnId, request_id: PermissionId, ...Decision.shape }),
  /** False if nothing waits for it. */
  result: z.object({ accepted: z.boolean() }),
} as const satisfies RpcMethod;

/** Stops the running turn. The runner exits once it has sent the reply. */
export const Shutdown = {
  method: 'shutdown',
  params: z.object({ reason: shortText.optional(), grace_ms: z.int().min(0).max(60_000).optional() }),
  result: z.object({}),
} as const satisfies RpcMethod;

/** The key of the user who prompts. Refused if keys stay behind the gateway. */
export const GetApiKey = {
  method: 'get_api_key',
  params: z.object({ ...TurnClaim.shape, provider: z.enum(providers) }),
  result: z.object({ api_key: z.string().min(1), base_url: z.url() }),
} as const satisfies RpcMethod;

/** Asks a person. If a rule decides, the decision is in the reply; otherwise `permission_resolved` follows. */
export const RequestPermission = {
  method: 'request_permission',
  params: z.object({ ...TurnClaim.shape, ...PermissionFields.shape }),
  result: z.object({ request_id: PermissionId, decision: Decision.optional() }),
} as const satisfies RpcMethod;

/** What the agent works with. Paths are as the runner sees them. */
export const GetExecutionContext = {
  method: 'get_execution_context',
  params: TurnClaim,
  result: z.object({
    home_dir: absolutePath,
    /** Where the agent's program is installed. */
    program_dir: absolutePath,
    /** Variables for its process, added to the runner's own. */
    env: EnvironmentVariables,
    profile: AgentProfile,
    /** The name of the session's own MCP server; undefined if it has none. */
    session_mcp: z.string().min(1).max(64).optional(),
  }),
} as const satisfies RpcMethod;

/** One event of the turn. `sequence` starts at 1, without gaps or repeats. The reply means that the event is durable. */
export const ReportMessage = {
  method: 'report_message',
  params: z.object({ ...TurnClaim.shape, sequence: z.int().min(1), event: AgentEvent }),
  result: z.object({}),
} as const satisfies RpcMethod;

/** The current phase of the turn. It is not stored. */
export const ReportProgress = {
  method: 'report_progress',
  params: z.object({ ...TurnClaim.shape, phase: z.enum(['loading', 'opening', 'prompting', 'stopping', 'closing']) }),
} as const satisfies RpcNotification;

/** Sent when the turn has ended and all its messages are durable. The token is invalid after it. */
export const ReportCompletion = {
  method: 'report_completion',
  params: z.object({ ...TurnClaim.shape, ...TurnReport.shape }),
  result: z.object({}),
} as const satisfies RpcMethod;

const TerminalId = z.string().min(1).max(128);

/** Starts a program on a PTY in the environment; the shell if `argv` is undefined. */
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

/** Input that a user types. */
export const TerminalTyped = {
  method: 'terminal_input',
  params: z.object({ terminal_id: TerminalId, data: z.base64().max(64 * 1024) }),
} as const satisfies RpcNotification;

/** Output of a terminal. */
export const TerminalPrinted = {
  method: 'terminal_output',
  params: z.object({ terminal_id: TerminalId, data: z.base64().max(128 * 1024) }),
} as const satisfies RpcNotification;

export const TerminalExited = {
  method: 'terminal_exited',
  params: z.object({ terminal_id: TerminalId, code: z.int().optional(), signal: z.string().max(32).optional() }),
} as const satisfies RpcNotification;

/** Raised with every change that the other side must know. Each side drops fields that it does not know. */
export const PROTOCOL_VERSION = 3;

/** From the server to the runner. */
export const toRunner = [
  Hello,
  Ping,
  SetupSession,
  ExecutePrompt,
  ReadTranscript,
  StopTurn,
  PermissionResolved,
  Shutdown,
  SpawnTerminal,
  TerminateTerminal,
  TerminalTyped,
] as const;

/** From the runner to the server. */
export const toServer = [
  GetApiKey,
  RequestPermission,
  GetExecutionContext,
  ReportMessage,
  ReportProgress,
  ReportCompletion,
  TerminalPrinted,
  TerminalExited,
] as const;
