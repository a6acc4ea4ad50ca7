/** The commands of the runner program: what each reads from its first line, and the lines that it writes. See docs/internals/runner.md. */

import { z } from 'zod';
import { AgentEvent, AgentLogEvent } from './agent-events.ts';
import { AgentProfile } from './agent-profile.ts';
import { absolutePath, ConversationName, Environment, shortText, TaskStatus } from './runner-methods.ts';
import { AgentFailure, AgentName, ModelName, PermissionMode, TokenUsage, ToolNames, TurnId } from './turn.ts';

/** The longest line that a runner reads or writes. */
export const LINE_BYTES = 8 * 1024 * 1024;

/** What every command is told of the agent. Paths are as the runner sees them. */
const agentFields = {
  agent: AgentName,
  cwd: absolutePath,
  homeDir: absolutePath,
  programDir: absolutePath,
  env: Environment.default({}),
};

/** Where there is a conversation to go on with, its transcript follows in lines of `TranscriptPiece`, to the end of the input. */
export const SetupRequest = z.object({
  ...agentFields,
  profile: AgentProfile,
  conversation: ConversationName.optional(),
});
export type SetupRequest = z.input<typeof SetupRequest>;

/** By way of a gateway on a Unix socket, or at an address. The key stands in for the provider's, or is it. */
export const QueryAccess = z.union([
  z.object({ gatewaySocket: absolutePath, key: z.string().min(1), sessionMcp: z.string().min(1).max(64).optional() }),
  z.object({ baseUrl: z.url(), key: z.string().min(1) }),
]);

export const QueryRequest = z.object({
  ...agentFields,
  profile: AgentProfile.default({}),
  turn: TurnId,
  prompt: z.string(),
  mode: PermissionMode,
  timeoutMs: z.int().min(1),
  tools: ToolNames.optional(),
  model: ModelName.optional(),
  conversation: ConversationName.optional(),
  access: QueryAccess,
});
export type QueryRequest = z.input<typeof QueryRequest>;

/** The lines after the first, while a query runs. Where they end, nobody is there to answer. */
export const QueryInput = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('permission'),
    id: z.int(),
    allowed: z.boolean(),
    reason: shortText.optional(),
    text: z.string().max(100_000).optional(),
  }),
  z.object({ type: z.literal('stop') }),
]);
export type QueryInput = z.input<typeof QueryInput>;

/** With `events`, what came of it in the words of the event log; else the agent's own text. */
export const TranscriptRequest = z.object({
  ...agentFields,
  conversation: ConversationName,
  as: z.enum(['text', 'events']).default('text'),
});
export type TranscriptRequest = z.input<typeof TranscriptRequest>;

/** A part of the agent's own record of a conversation; see `transcriptPieces`. */
export const TranscriptPiece = z.object({ type: z.literal('text'), text: z.string() });
export type TranscriptPiece = z.infer<typeof TranscriptPiece>;

/** `setup-session`: `kept` where a newer transcript was there already. */
export const SetupLine = z.object({
  type: z.literal('prepared'),
  transcript: z.enum(['none', 'written', 'kept']),
});
export type SetupLine = z.infer<typeof SetupLine>;

/** `execute-query`: the last line is `ended`, with exit code 0 where it was completed or cancelled. */
export const QueryLine = z.discriminatedUnion('type', [
  z.object({ type: z.literal('event'), sequence: z.int().min(1), event: AgentEvent }),
  z.object({
    type: z.literal('permission'),
    id: z.int(),
    item: z.string().optional(),
    tool: z.string(),
    summary: z.string(),
    input: z.unknown().optional(),
    pattern: z.string().optional(),
    question: z
      .object({
        text: z.string(),
        options: z.array(z.object({ label: z.string(), description: z.string().optional() })).optional(),
      })
      .optional(),
  }),
  z.object({
    type: z.literal('ended'),
    status: TaskStatus,
    messageCount: z.int().min(0),
    usage: TokenUsage.optional(),
    conversation: z.string().optional(),
    error: AgentFailure.optional(),
  }),
]);
export type QueryLine = z.infer<typeof QueryLine>;

/** `read-transcript`: pieces in order, then `end`. */
export const TranscriptLine = z.discriminatedUnion('type', [
  TranscriptPiece,
  z.object({ type: z.literal('event'), event: AgentLogEvent }),
  z.object({ type: z.literal('end'), found: z.boolean() }),
]);
export type TranscriptLine = z.infer<typeof TranscriptLine>;

/** The last line of any command that fails, with a non-zero exit code. */
export const ErrorLine = z.object({
  type: z.literal('error'),
  error: AgentFailure.extend({ details: z.record(z.string(), z.unknown()).optional() }),
});
export type ErrorLine = z.infer<typeof ErrorLine>;

/** Escaped, even the worst text of this length is far below the longest line. */
const PIECE_CHARACTERS = 256 * 1024;

/** A transcript of any length, in pieces that lines can hold. A pair of surrogates is never cut. */
export function* transcriptPieces(text: string): Generator<TranscriptPiece> {
  for (let at = 0; at < text.length; ) {
    const end = at + PIECE_CHARACTERS;
    const cutsPair = end < text.length && /[\uD800-\uDBFF]/.test(text.charAt(end - 1));
    const next = cutsPair ? end - 1 : end;
    yield { type: 'text', text: text.slice(at, next) };
    at = next;
  }
}
