/** Permissions: a request to do something, its decision, and the rules that decide without a person. */

import { z } from 'zod';
import { PermissionOutcome, PermissionScope, questionFields } from './agent-events.ts';
import type { PyValue } from './py-values.ts';
import { ExecutionId } from './session-events.ts';
import { SessionId } from './session-info.ts';
import { PermissionId, TurnId } from './turn.ts';

export const RuleId = z.string().regex(/^rul_[0-9a-z]{16}$/, 'must be rul_ and 16 letters and digits');

const reason = z.string().max(2000);

const pattern = z.string().min(1).max(4000);

/** A permission request of an agent. */
export const PermissionRequest = z.object({
  /** The item of the turn that it belongs to. */
  item: z.string().optional(),
  tool: z.string(),
  /** For people to read: a command line, a path. */
  summary: z.string(),
  input: z.unknown().optional(),
  /** A rule that the agent suggests. It is only shown. */
  pattern: z.string().optional(),
  /** Set if the agent asks a question, not for a permission. */
  question: z.object(questionFields).optional(),
});

export type PermissionRequest = z.infer<typeof PermissionRequest>;

/** How it ended. `by` is the id of the user or of the rule that decided. */
export const Resolution = z.object({
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

/** The part of the resolution that the agent gets. */
export const PermissionAnswer = z.object({
  allowed: z.boolean(),
  reason: z.string().max(10_000).optional(),
  /** The answer to a question. */
  text: z.string().max(100_000).optional(),
});

export type PermissionAnswer = z.infer<typeof PermissionAnswer>;

export const PermissionInfo = z
  .object({
    id: PermissionId,
    session: SessionId,
    turn: TurnId.optional(),
    execution: ExecutionId.optional(),
    ...PermissionRequest.shape,
    /** Of a kernel's tool. */
    recipe: z.string().optional(),
    /** Of a kernel's tool: a fingerprint of its definition. A rule made from this request applies only to it. */
    definition: z.string().optional(),
    /** The id of the user on whose behalf it is. Rules of this user apply. */
    user: z.string().optional(),
    /** The pattern of a rule that allows exactly this again. If undefined, there can be no rule. */
    exactly: z.string().optional(),
    state: z.enum(['pending', 'resolved']),
    requestedAt: z.number(),
    expiresAt: z.number().optional(),
    resolution: Resolution.optional(),
  })
  .meta({ id: 'Permission' });

export type PermissionInfo = z.infer<typeof PermissionInfo>;

/**
 * Authentication says who decides. `pattern` is for `session` and `always`: what the rule allows; if undefined, exactly the
 * same again.
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

/** The form that callers write, before defaults. */
export type PermissionDecision = z.input<typeof PermissionDecision>;

export const Abstention = z.strictObject({
  decision: z.literal('abstain'),
  responder: z.int().meta({
    description: 'The `responder` number of the WebSocket. If all responders abstain, the tool of the code is refused.',
  }),
});

export const PermissionRule = z
  .object({
    id: RuleId,
    tool: z.string(),
    pattern: z.string(),
    /** Only for a kernel's tool: the definition that the rule applies to; any if undefined. */
    definition: z.string().optional(),
    /** Set if it applies only to this session. */
    session: SessionId.optional(),
    /** The id of the user who made it. */
    by: z.string(),
    createdAt: z.number(),
  })
  .meta({ id: 'PermissionRule' });

export type PermissionRule = z.infer<typeof PermissionRule>;

export const NewRule = z.strictObject({ tool: z.string().min(1).max(200), pattern });

export type NewRule = z.infer<typeof NewRule>;

/** A call of a tool that requires approval. */
export interface ApprovalRequest {
  readonly tool: string;
  readonly recipe: string | undefined;
  /** Arguments by name, with defaults and presets: exactly what the tool gets. */
  readonly arguments: Readonly<Record<string, PyValue>>;
  /** The same as text: a command line or a request. */
  readonly summary: string;
  /** A fingerprint of the tool's definition: program, address, environment, credentials and limits. */
  readonly definition?: string | undefined;
  /** Aborted when the answer is no longer needed. */
  readonly signal: AbortSignal;
}

export type Approval = boolean | { readonly allowed: boolean; readonly reason?: string | undefined };
export type Approve = (request: ApprovalRequest) => Promise<Approval>;
