/** The routes of permissions: what waits for somebody's leave, the decision, and the rules that decide by themselves. */

import { z } from 'zod';
import { PermissionOutcome } from '../agent/events.ts';
import { PermissionId, TurnId } from '../agent/names.ts';
import { endpoint } from './endpoint.ts';
import { ExecutionId } from './events.ts';
import { SessionId } from './sessions.ts';

const tag = 'Permissions';
const anybody = { kind: 'anybody' } as const;
const view = { kind: 'session', right: 'view' } as const;
const use = { kind: 'session', right: 'use' } as const;

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

const Abstention = z.strictObject({
  decision: z.literal('abstain'),
  attendant: z
    .int()
    .meta({ description: '`attendant` of the WebSocket. Where all abstain, a tool of code is refused.' }),
});

const Named = z.object({ id: SessionId, permission: PermissionId });

export const ListPermissions = endpoint('get /v1/sessions/{id}/permissions', tag, view, {
  summary: 'What was asked for in a session, oldest first; with state=pending what waits for a decision',
  query: z.strictObject({ state: z.enum(['pending', 'resolved']).optional() }),
  result: z.object({ permissions: z.array(PermissionInfo) }),
});

export const GetPermission = endpoint('get /v1/sessions/{id}/permissions/{permission}', tag, view, {
  summary: 'One request, and how it was decided',
  params: Named,
  result: PermissionInfo,
});

export const DecidePermission = endpoint('post /v1/sessions/{id}/permissions/{permission}', tag, use, {
  summary:
    'Allow or deny what waits, or leave it to others; the first decision counts, a later one is ALREADY_RESOLVED',
  audit: 'session.permission',
  whileStopping: true,
  params: Named,
  body: z.discriminatedUnion('decision', [...PermissionDecision.options, Abstention]),
  result: PermissionInfo,
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

const rules = z.object({ rules: z.array(PermissionRule) });
const NewRule = z.strictObject({ tool: z.string().min(1).max(200), pattern });
export type NewRule = z.infer<typeof NewRule>;

export const ListRules = endpoint('get /v1/permission-rules', tag, anybody, {
  summary: 'What you have allowed for good: in each session where you prompt an agent or run code',
  result: rules,
});

export const AddRule = endpoint('post /v1/permission-rules', tag, anybody, {
  summary: 'Allow a tool for good where its use fits a pattern',
  audit: 'permission-rule.add',
  body: NewRule,
  result: PermissionRule,
  status: 201,
});

export const DeleteRule = endpoint('delete /v1/permission-rules/{rule}', tag, anybody, {
  summary: 'Allow it no longer',
  audit: 'permission-rule.delete',
  params: z.object({ rule: RuleId }),
});

export const ListSessionRules = endpoint('get /v1/sessions/{id}/permission-rules', tag, view, {
  summary: 'What is allowed in this session until it is deleted',
  result: rules,
});

export const DeleteSessionRule = endpoint('delete /v1/sessions/{id}/permission-rules/{rule}', tag, use, {
  summary: 'Allow it no longer in this session',
  audit: 'session.permission-rule-delete',
  params: z.object({ id: SessionId, rule: RuleId }),
});
