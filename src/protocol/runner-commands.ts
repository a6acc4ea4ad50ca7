/** The runner's one-shot commands: the first line that each reads, and the lines that it writes. See docs/internals/runner.md. */

import { z } from 'zod';
import { AgentEvent, AgentLogEvent } from './agent-events.ts';
import { AgentProfile } from './agent-profile.ts';
import { PermissionAnswer, PermissionRequest } from './permission.ts';
import { absolutePath, EnvironmentVariables } from './runner-methods.ts';
import { AgentFailure, AgentName, ConversationName, PromptFields, TurnId, TurnResult } from './turn.ts';

/** The longest line that a runner reads or writes. */
export const LINE_BYTES = 8 * 1024 * 1024;

/** In every command. Paths are as the runner sees them. */
const agentFields = {
  agent: AgentName,
  cwd: absolutePath,
  homeDir: absolutePath,
  programDir: absolutePath,
  env: EnvironmentVariables.default({}),
};

/** If there is a conversation to continue, its transcript follows in lines of `TranscriptPiece`, to the end of the input. */
export const SetupRequest = z.object({
  ...agentFields,
  profile: AgentProfile,
  conversation: ConversationName.optional(),
});
export type SetupRequest = z.input<typeof SetupRequest>;

/** Through a gateway on a Unix socket, whose key stands in for the provider's, or directly. */
const QueryAccess = z.union([
  z.object({ gatewaySocket: absolutePath, key: z.string().min(1), sessionMcp: z.string().min(1).max(64).optional() }),
  z.object({ baseUrl: z.url(), key: z.string().min(1) }),
]);

export const QueryRequest = z.object({
  ...agentFields,
  profile: AgentProfile.default({}),
  turn: TurnId,
  ...PromptFields.shape,
  timeoutMs: z.int().min(1),
  conversation: ConversationName.optional(),
  access: QueryAccess,
});
export type QueryRequest = z.input<typeof QueryRequest>;

/** The lines after the first, while a query runs. After their end, no more answers can arrive. */
export const QueryInput = z.discriminatedUnion('type', [
  z.object({ type: z.literal('permission'), id: z.int(), ...PermissionAnswer.shape }),
  z.object({ type: z.literal('stop') }),
]);
export type QueryInput = z.input<typeof QueryInput>;

/** `events`: as events of the session log. `text`: the agent's own text. */
export const TranscriptRequest = z.object({
  ...agentFields,
  conversation: ConversationName,
  as: z.enum(['text', 'events']).default('text'),
});
export type TranscriptRequest = z.input<typeof TranscriptRequest>;

/** A part of the agent's own text of a conversation; see `transcriptPieces`. */
export const TranscriptPiece = z.object({ type: z.literal('text'), text: z.string() });
export type TranscriptPiece = z.infer<typeof TranscriptPiece>;

/** `setup-session`: `kept` if the agent has a newer transcript. */
export const SetupLine = z.object({ type: z.literal('prepared'), transcript: z.enum(['none', 'written', 'kept']) });
export type SetupLine = z.infer<typeof SetupLine>;

/** `execute-query`: the last line is `ended`, with exit code 0 if the turn was completed or cancelled. */
export const QueryLine = z.discriminatedUnion('type', [
  z.object({ type: z.literal('event'), sequence: z.int().min(1), event: AgentEvent }),
  z.object({ type: z.literal('permission'), id: z.int(), ...PermissionRequest.shape }),
  z.object({ type: z.literal('ended'), ...TurnResult.shape, messageCount: z.int().min(0) }),
]);
export type QueryLine = z.infer<typeof QueryLine>;

/** `read-transcript`: pieces in order, then `end`. */
export const TranscriptLine = z.discriminatedUnion('type', [
  TranscriptPiece,
  z.object({ type: z.literal('event'), event: AgentLogEvent }),
  z.object({ type: z.literal('end'), found: z.boolean() }),
]);
export type TranscriptLine = z.infer<typeof TranscriptLine>;

/** The last line of a command that fails, with a non-zero exit code. */
export const ErrorLine = z.object({
  type: z.literal('error'),
  error: AgentFailure.extend({ details: z.record(z.string(), z.unknown()).optional() }),
});
export type ErrorLine = z.infer<typeof ErrorLine>;

/** Even if every character is escaped, far below the longest line. */
export const PIECE_CHARACTERS = 256 * 1024;

/** Splits a transcript of any length into pieces that fit into lines, never in the middle of a surrogate pair. */
export function* transcriptPieces(text: string): Generator<TranscriptPiece> {
  for (let at = 0; at < text.length; ) {
    const end = at + PIECE_CHARACTERS;
    const cutsPair = end < text.length && /[\uD800-\uDBFF]/.test(text.charAt(end - 1));
    const next = cutsPair ? end - 1 : end;
    yield { type: 'text', text: text.slice(at, next) };
    at = next;
  }
}
