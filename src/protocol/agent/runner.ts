/** The runner's commands: what each reads as its first line, and the lines that it writes. docs/runner.md shows them. */

import { z } from 'zod';
import { AgentEvent, AgentLogEvent } from './events.ts';
import { AgentFailure, AgentName, ModelName, PermissionMode, TokenUsage, ToolNames, TurnId } from './names.ts';
import { AgentProfile } from './profile.ts';
import { Conversation, Environment, path, shortText, TaskStatus } from './rpc-words.ts';

/** The longest line that a runner reads or writes. */
export const LINE_BYTES = 8 * 1024 * 1024;

/** What every command is told of the agent. Paths are as the runner sees them. */
const place = {
  agent: AgentName,
  cwd: path,
  homeDir: path,
  programDir: path,
  env: Environment.default({}),
};

/** Where there is a conversation to go on with, its transcript follows in lines of `TranscriptPiece`, to the end of the input. */
export const SetupSession = z.object({ ...place, profile: AgentProfile, conversation: Conversation.optional() });
export type SetupSession = z.input<typeof SetupSession>;

/** By way of a gateway on a Unix socket, or at an address. The key stands in for the provider's, or is it. */
export const QueryAccess = z.union([
  z.object({ gatewaySocket: path, key: z.string().min(1), sessionMcp: z.string().min(1).max(64).optional() }),
  z.object({ baseUrl: z.url(), key: z.string().min(1) }),
]);

export const ExecuteQuery = z.object({
  ...place,
  profile: AgentProfile.default({}),
  turn: TurnId,
  prompt: z.string(),
  mode: PermissionMode,
  timeoutMs: z.int().min(1),
  tools: ToolNames.optional(),
  model: ModelName.optional(),
  conversation: Conversation.optional(),
  access: QueryAccess,
});
export type ExecuteQuery = z.input<typeof ExecuteQuery>;

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
export const ReadTranscript = z.object({
  ...place,
  conversation: Conversation,
  as: z.enum(['text', 'events']).default('text'),
});
export type ReadTranscript = z.input<typeof ReadTranscript>;

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
