/** What the daemon asks of a runner. */

import { z } from 'zod';
import type { RpcMethod } from '../rpc-message.ts';
import { AgentName, ModelName, PermissionId, PermissionMode, ToolNames, TurnId } from './names.ts';
import { Conversation, Decision, KeyMode, ofTask, path, SessionId, shortText, TaskOutcome } from './rpc-words.ts';

/** The first call, from the daemon: nothing else is taken before it. */
export const Hello = {
  method: 'hello',
  params: z.object({
    protocol_version: z.int(),
    session_id: SessionId,
    executor_id: z.string().min(1).max(200),
    key_mode: KeyMode,
    /** Where the gateway and the session's MCP server listen, as the runner sees it. */
    gateway_socket: path.optional(),
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
    ...ofTask,
    agentic_tool: AgentName,
    prompt: z.string(),
    cwd: path,
    /** Those of the agent's own tools that it may have; without it, all. */
    tools: ToolNames.optional(),
    permission_mode: PermissionMode,
    /** From the call to the end of the turn, the time in which a permission waits included. */
    timeout_ms: z.int().min(1),
    model: ModelName.optional(),
    /** The one to go on with; a new one without it. */
    conversation: Conversation.optional(),
  }),
  result: TaskOutcome,
} as const satisfies RpcMethod;

/** A conversation as the agent keeps it, part by part from 0 on: all parts are of the moment at which the first was asked for. */
export const ReadTranscript = {
  method: 'read_transcript',
  params: z.object({
    agentic_tool: AgentName,
    cwd: path,
    home_dir: path,
    program_dir: path,
    conversation: Conversation,
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
  params: z.object({ task_id: TurnId, request_id: PermissionId, ...Decision }),
  /** False where nothing waits for it any more. */
  result: z.object({ accepted: z.boolean() }),
} as const satisfies RpcMethod;

/** Stops what runs, and ends the runner once the reply is sent. */
export const Shutdown = {
  method: 'shutdown',
  params: z.object({ reason: shortText.optional(), grace_ms: z.int().min(0).max(60_000).optional() }),
  result: z.object({}),
} as const satisfies RpcMethod;
