/** Permissions: a request to do something, its decision, and the rules that decide without a person. */

import { z } from 'zod';
import { PermissionOutcome } from './agent-events.ts';
import { ExecutionId } from './session-events.ts';
import { SessionId } from './session-info.ts';
import { PermissionId, TurnId } from './turn.ts';

export const RuleId = z.string().regex(/^rul_[0-9a-z]{16}$/, 'must be rul_ and 16 letters and digits');

/** How long what is allowed stays allowed. */
export const PermissionScope = z.enum(['once', 'session', 'always']);

export type PermissionScope = z.infer<typeof PermissionScope>;

const reason = z.string().max(2000);

const pattern = z.string().min(1).max(4000);

const Question = z.object({
  text: z.string(),
  options: z.array(z.object({ label: z.string(), description: z.string().optional() })).optional(),
});

/** How it ended. `by` is the id of the user who decided, or of the rule that did. */
const Resolution = z.object({
  outcome: PermissionOutcome,
  scope: PermissionScope.optional(),
  reason: reason.optional(),
  /** The answer to a question. */
  text: z.string().optional(),
  by: z.string().optional(),
  /** Milliseconds since 1970. */
  at: z.number(),
});

export type Resolution = z.infer<typeof Resolution>;

export const PermissionInfo = z
  .object({
    id: PermissionId,
    session: SessionId,
    turn: TurnId.optional(),
    execution: ExecutionId.optional(),
    item: z.string().optional(),
    /** Of a kernel's tool. */
    recipe: z.string().optional(),
    /** Of a kernel's tool: a fingerprint of its definition. A rule that is made here holds for this one alone. */
    definition: z.string().optional(),
    /** On whose behalf: the id of a user. Rules of this user decide. */
    user: z.string().optional(),
    tool: z.string(),
    summary: z.string(),
    input: z.unknown().optional(),
    question: Question.optional(),
    /** What the agent thinks that a rule could say. It decides nothing. */
    pattern: z.string().optional(),
    /** What a rule says that allows this again and nothing else; without it there can be no rule. */
    exactly: z.string().optional(),
    state: z.enum(['pending', 'resolved']),
    requestedAt: z.number(),
    expiresAt: z.number().optional(),
    resolution: Resolution.optional(),
  })
  .meta({ id: 'Permission' });

export type PermissionInfo = z.infer<typeof PermissionInfo>;

/**
 * Who decides is known from the request, and has no field here. `pattern` is for `session` and `always`: what else is
 * allowed; without it, the very same again.
 */
export const PermissionDecision = z.discriminatedUnion('decision', [
  z.strictObject({
    decision: z.literal('allow'),
    scope: PermissionScope.default('once'),
    pattern: pattern.optional(),
    text: z.string().max(100_000).optional().meta({ description: 'The answer to a question.' }),
  }),
  z.strictObject({ decision: z.literal('deny'), reason: reason.optional() }),
]);

/** As a caller writes it. */
export type PermissionDecision = z.input<typeof PermissionDecision>;

export const Abstention = z.strictObject({
  decision: z.literal('abstain'),
  attendant: z
    .int()
    .meta({ description: '`attendant` of the WebSocket. Where all abstain, a tool of code is refused.' }),
});

export const PermissionRule = z
  .object({
    id: RuleId,
    tool: z.string(),
    pattern: z.string(),
    /** Of a kernel's tool: it holds while the definition of the tool is this one; any, where it is left out. */
    definition: z.string().optional(),
    /** Set where it holds in this session alone. */
    session: SessionId.optional(),
    /** Who made it: the id of a user. */
    by: z.string(),
    createdAt: z.number(),
  })
  .meta({ id: 'PermissionRule' });

export type PermissionRule = z.infer<typeof PermissionRule>;

export const NewRule = z.strictObject({ tool: z.string().min(1).max(200), pattern });

export type NewRule = z.infer<typeof NewRule>;
