/** The lines of Claude's transcripts, as far as Cella reads them; the rest is the program's bookkeeping. */

import { z } from 'zod';
import { AssistantMessage, ModelUsage, UserMessage } from './native.ts';

const about = {
  uuid: z.string().optional(),
  cwd: z.string().optional(),
  sessionId: z.string().optional(),
  /** Of a subagent's own transcript. */
  agentId: z.string().optional(),
  isMeta: z.boolean().optional(),
};

const AssistantLine = z.object({
  ...about,
  type: z.literal('assistant'),
  message: AssistantMessage.extend({ stop_reason: z.string().nullish() }),
  apiBlockIndex: z.int().min(0).optional(),
  isAbortedMidStream: z.boolean().optional(),
  error: z.string().optional(),
});
export type AssistantLine = z.infer<typeof AssistantLine>;

const UserLine = z.object({
  ...about,
  type: z.literal('user'),
  message: UserMessage,
  permissionMode: z.string().optional(),
  toolUseResult: z.unknown().optional(),
  toolDenialKind: z.string().optional(),
  permissionDecision: z.looseObject({}).optional(),
});
export type UserLine = z.infer<typeof UserLine>;

/** Counted from the beginning of the conversation, written when the program ends. */
const CostLine = z.object({ ...about, type: z.literal('cost-state'), modelUsage: ModelUsage });
const SystemLine = z.object({
  ...about,
  type: z.literal('system'),
  subtype: z.enum(['compact_boundary', 'informational']),
  content: z.string().optional(),
});

const Line = z.discriminatedUnion('type', [AssistantLine, UserLine, CostLine, SystemLine]);
export type Line = z.infer<typeof Line>;

export function linesOf(transcript: string): Line[] {
  return transcript.split('\n').flatMap((text) => {
    try {
      const parsed = Line.safeParse(JSON.parse(text));
      return parsed.success ? [parsed.data] : [];
    } catch {
      return []; // a line that was cut off, or is empty
    }
  });
}
