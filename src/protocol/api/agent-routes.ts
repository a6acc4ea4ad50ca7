/** Routes of coding agents: prompts, turns, conversations, permissions and profiles. */

import { z } from 'zod';
import { AgentProfile, NamedProfile, ProfileName } from '../agent-profile.ts';
import { Conversation } from '../conversation.ts';
import { Abstention, NewRule, PermissionDecision, PermissionInfo, PermissionRule, RuleId } from '../permission.ts';
import { StreamItem } from '../session-events.ts';
import { milliseconds, SessionId } from '../session-info.ts';
import {
  AgentName,
  CodingAgent,
  DayUsage,
  ModelUsage,
  PermissionId,
  Prompted,
  PromptFields,
  Transcript,
  TurnId,
  TurnInfo,
} from '../turn.ts';
import { Idempotent } from './execution-routes.ts';
import { queryInt, route, session, user } from './route.ts';

/** Even if every character is escaped, it fits into one message of the runner protocol. */
const MOST_PROMPT = 1_300_000;

const { prompt, mode, model, tools } = PromptFields.shape;

const PromptBody = z.strictObject({
  prompt: prompt.min(1).max(MOST_PROMPT),
  agent: AgentName.optional().meta({ description: 'Default: the agent of the previous turn, or claude.' }),
  mode: mode.optional().meta({ description: 'Default: `ask`.' }),
  model,
  tools: tools.meta({ description: 'The agent’s own tools that it may use. Default: all.' }),
  timeoutMs: milliseconds
    .optional()
    .meta({ description: 'The time limit of the turn, from when it starts to run; 0: no limit.' }),
  onBusy: z
    .enum(['queue', 'refuse'])
    .optional()
    .meta({ description: '`refuse`: respond with 409 if another turn is running.' }),
  profile: ProfileName.optional().meta({ description: 'The name of one of your profiles.' }),
  wait: z
    .boolean()
    .optional()
    .meta({ description: '`false`: respond at once with the accepted turn. Ignored for streams.' }),
  stopWhenGone: z.boolean().optional().meta({ description: 'Stop the turn if the client disconnects.' }),
});

const ProfileParams = z.object({ name: ProfileName });

const PermissionParams = z.object({ id: SessionId, permission: PermissionId });

const RuleList = z.object({ rules: z.array(PermissionRule) });

export const agentRoutes = {
  promptAgent: route('POST /v1/sessions/{id}/prompt', 'Agents', {
    auth: session('use'),
    summary: 'Prompt the agent of a session: the result of the turn as JSON, or a stream of its events, by Accept',
    audit: 'session.prompt',
    headers: Idempotent,
    body: PromptBody,
    response: Prompted,
    stream: StreamItem,
  }),

  stopAgent: route('POST /v1/sessions/{id}/stop', 'Agents', {
    auth: session('use'),
    summary: 'Stop the running turn, the named turn (even if it is still in the queue), or with all: true all turns',
    audit: 'session.stop',
    whileDraining: true,
    body: z.strictObject({ turn: TurnId.optional(), all: z.boolean().optional() }).prefault({}),
    response: z.object({
      /** The turns that were stopped; empty if none was running. */
      turns: z.array(TurnId),
    }),
  }),

  listCodingAgents: route('GET /v1/sessions/{id}/agents', 'Agents', {
    auth: session('view'),
    summary: 'List the coding agents that the session can use, and whether they are installed',
    response: z.object({ agents: z.array(CodingAgent).readonly() }),
  }),

  warmAgent: route('POST /v1/sessions/{id}/agents/{agent}/warm', 'Agents', {
    auth: session('use'),
    summary: 'Start a runner before you send a prompt, if there is room for one',
    params: z.object({ id: SessionId, agent: AgentName }),
    response: z.object({
      /** Whether a runner exists or is being started. */
      warm: z.boolean(),
    }),
  }),

  listTurns: route('GET /v1/sessions/{id}/turns', 'Agents', {
    auth: session('view'),
    summary: 'List the turns of a session, newest first',
    query: z.strictObject({
      limit: queryInt().min(1).max(1000).default(100),
      before: TurnId.optional().meta({ description: '`next` of the previous page.' }),
    }),
    response: z.object({ turns: z.array(TurnInfo), next: TurnId.optional() }),
  }),

  getTurn: route('GET /v1/sessions/{id}/turns/{turn}', 'Agents', {
    auth: session('view'),
    summary: 'Get the current state of a turn',
    params: z.object({ id: SessionId, turn: TurnId }),
    response: TurnInfo,
  }),

  readTranscript: route('GET /v1/sessions/{id}/transcript', 'Agents', {
    auth: session('view'),
    summary: 'Get a conversation in the agent’s own format: the latest, or the named one',
    query: z.strictObject({ conversation: z.string().min(1).max(200).optional() }),
    response: Transcript,
  }),

  readUsage: route('GET /v1/sessions/{id}/usage', 'Agents', {
    auth: session('view'),
    summary: 'Get the model usage and cost of a session',
    response: ModelUsage.meta({ id: 'ModelUsage' }),
  }),

  readOwnUsage: route('GET /v1/usage', 'Agents', {
    auth: user('view'),
    summary: 'Get your model usage by day',
    query: z.strictObject({ days: queryInt().min(1).max(366).default(31) }),
    response: z.object({ days: z.array(DayUsage) }),
  }),

  readConversation: route('GET /v1/sessions/{id}/conversation', 'Agents', {
    auth: session('view'),
    summary:
      'Get what the agents of a session have done, computed from the stored events: turns, items, plan, files, permissions',
    response: Conversation,
  }),
};

export const profileRoutes = {
  listProfiles: route('GET /v1/profiles', 'Agents', {
    auth: user('view'),
    summary: 'List your agent profiles',
    response: z.object({ profiles: z.array(NamedProfile) }),
  }),

  getProfile: route('GET /v1/profiles/{name}', 'Agents', {
    auth: user('view'),
    summary: 'Get a profile',
    params: ProfileParams,
    response: NamedProfile,
  }),

  setProfile: route('PUT /v1/profiles/{name}', 'Agents', {
    auth: user('manage'),
    summary: 'Create or replace a profile',
    audit: 'profile.set',
    params: ProfileParams,
    body: AgentProfile,
    response: NamedProfile,
  }),

  deleteProfile: route('DELETE /v1/profiles/{name}', 'Agents', {
    auth: user('manage'),
    summary: 'Delete a profile',
    audit: 'profile.delete',
    params: ProfileParams,
  }),
};

export const permissionRoutes = {
  listPermissions: route('GET /v1/sessions/{id}/permissions', 'Permissions', {
    auth: session('view'),
    summary:
      'List the permission requests of a session, oldest first; with state=pending, only those without a decision',
    query: z.strictObject({ state: z.enum(['pending', 'resolved']).optional() }),
    response: z.object({ permissions: z.array(PermissionInfo) }),
  }),

  getPermission: route('GET /v1/sessions/{id}/permissions/{permission}', 'Permissions', {
    auth: session('view'),
    summary: 'Get a permission request and its decision',
    params: PermissionParams,
    response: PermissionInfo,
  }),

  decidePermission: route('POST /v1/sessions/{id}/permissions/{permission}', 'Permissions', {
    auth: session('use'),
    summary:
      'Allow or deny a pending request, or leave the decision to others; the first decision counts, later ones fail with ALREADY_RESOLVED',
    audit: 'session.permission',
    whileDraining: true,
    params: PermissionParams,
    body: z.discriminatedUnion('decision', [...PermissionDecision.options, Abstention]),
    response: PermissionInfo,
  }),

  listRules: route('GET /v1/permission-rules', 'Permissions', {
    auth: user(),
    summary: 'List your permission rules; they apply in every session where you prompt an agent or run code',
    response: RuleList,
  }),

  createRule: route('POST /v1/permission-rules', 'Permissions', {
    auth: user('use'),
    summary: 'Create a permission rule: always allow uses of a tool that match a pattern',
    audit: 'permission-rule.create',
    body: NewRule,
    response: PermissionRule,
    status: 201,
  }),

  deleteRule: route('DELETE /v1/permission-rules/{rule}', 'Permissions', {
    auth: user('use'),
    summary: 'Delete a permission rule',
    audit: 'permission-rule.delete',
    params: z.object({ rule: RuleId }),
  }),

  listSessionRules: route('GET /v1/sessions/{id}/permission-rules', 'Permissions', {
    auth: session('view'),
    summary: 'List the permission rules of this session',
    response: RuleList,
  }),

  deleteSessionRule: route('DELETE /v1/sessions/{id}/permission-rules/{rule}', 'Permissions', {
    auth: session('use'),
    summary: 'Delete a permission rule of this session',
    audit: 'session.permission-rule-delete',
    params: z.object({ id: SessionId, rule: RuleId }),
  }),
};
