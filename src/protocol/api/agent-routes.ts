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
  agent: AgentName.optional().meta({ description: 'That of the turn before, else claude.' }),
  mode: mode.optional().meta({ description: '`ask` where nothing is said.' }),
  model,
  tools: tools.meta({ description: 'Those of the agent’s own tools that it may use; without it, all.' }),
  timeoutMs: milliseconds.optional().meta({ description: 'Of the turn, once it runs; 0 means no limit.' }),
  onBusy: z.enum(['queue', 'refuse']).optional().meta({ description: '`refuse`: 409 where another turn runs.' }),
  profile: ProfileName.optional().meta({ description: 'The name of a profile of yours.' }),
  wait: z
    .boolean()
    .optional()
    .meta({ description: 'False: answers at once with the turn as it was accepted. Streams do not heed it.' }),
  stopWhenGone: z.boolean().optional().meta({ description: 'Stops the turn where the client goes away.' }),
});

const ProfileParams = z.object({ name: ProfileName });

const PermissionParams = z.object({ id: SessionId, permission: PermissionId });

const RuleList = z.object({ rules: z.array(PermissionRule) });

export const agentRoutes = {
  promptAgent: route('POST /v1/sessions/{id}/prompt', 'Agents', {
    auth: session('use'),
    summary: 'Prompt the agent of a session: how its turn ended as JSON, or its events as they come, by Accept',
    audit: 'session.prompt',
    headers: Idempotent,
    body: PromptBody,
    response: Prompted,
    stream: StreamItem,
  }),

  stopAgent: route('POST /v1/sessions/{id}/stop', 'Agents', {
    auth: session('use'),
    summary: 'Stop the turn that runs, or the one that is named, also where it waits; with all: true every one',
    audit: 'session.stop',
    whileDraining: true,
    body: z.strictObject({ turn: TurnId.optional(), all: z.boolean().optional() }).prefault({}),
    response: z.object({
      /** Those that were stopped: none where none ran. */
      turns: z.array(TurnId),
    }),
  }),

  listCodingAgents: route('GET /v1/sessions/{id}/agents', 'Agents', {
    auth: session('view'),
    summary: 'The coding agents that a session can be worked in by, and which of them are installed',
    response: z.object({ agents: z.array(CodingAgent).readonly() }),
  }),

  warmAgent: route('POST /v1/sessions/{id}/agents/{agent}/warm', 'Agents', {
    auth: session('use'),
    summary: 'Start a runner ahead of a prompt, if there is room for one',
    params: z.object({ id: SessionId, agent: AgentName }),
    response: z.object({
      /** Whether there is one, or one is being started. */
      warm: z.boolean(),
    }),
  }),

  listTurns: route('GET /v1/sessions/{id}/turns', 'Agents', {
    auth: session('view'),
    summary: 'The turns of a session, newest first',
    query: z.strictObject({
      limit: queryInt().min(1).max(1000).default(100),
      before: TurnId.optional().meta({ description: '`next` of the page before.' }),
    }),
    response: z.object({ turns: z.array(TurnInfo), next: TurnId.optional() }),
  }),

  getTurn: route('GET /v1/sessions/{id}/turns/{turn}', 'Agents', {
    auth: session('view'),
    summary: 'One turn as it is now',
    params: z.object({ id: SessionId, turn: TurnId }),
    response: TurnInfo,
  }),

  readTranscript: route('GET /v1/sessions/{id}/transcript', 'Agents', {
    auth: session('view'),
    summary: 'The conversation as the agent keeps it: the last one, or the one that is named',
    query: z.strictObject({ conversation: z.string().min(1).max(200).optional() }),
    response: Transcript,
  }),

  readUsage: route('GET /v1/sessions/{id}/usage', 'Agents', {
    auth: session('view'),
    summary: 'What the agents of a session have used of models, and what it cost',
    response: ModelUsage.meta({ id: 'ModelUsage' }),
  }),

  readOwnUsage: route('GET /v1/usage', 'Agents', {
    auth: user('view'),
    summary: 'What you have used of models, by day',
    query: z.strictObject({ days: queryInt().min(1).max(366).default(31) }),
    response: z.object({ days: z.array(DayUsage) }),
  }),

  readConversation: route('GET /v1/sessions/{id}/conversation', 'Agents', {
    auth: session('view'),
    summary:
      'What the agents of a session have done, as the kept events add up: turns, items, plan, files, permissions',
    response: Conversation,
  }),
};

export const profileRoutes = {
  listProfiles: route('GET /v1/profiles', 'Agents', {
    auth: user('view'),
    summary: 'Your profiles for agents',
    response: z.object({ profiles: z.array(NamedProfile) }),
  }),

  getProfile: route('GET /v1/profiles/{name}', 'Agents', {
    auth: user('view'),
    summary: 'One of your profiles',
    params: ProfileParams,
    response: NamedProfile,
  }),

  putProfile: route('PUT /v1/profiles/{name}', 'Agents', {
    auth: user('manage'),
    summary: 'Make a profile, or put another in its place',
    audit: 'profile.put',
    params: ProfileParams,
    body: AgentProfile,
    response: NamedProfile,
  }),

  deleteProfile: route('DELETE /v1/profiles/{name}', 'Agents', {
    auth: user('manage'),
    summary: 'Delete one of your profiles',
    audit: 'profile.delete',
    params: ProfileParams,
  }),
};

export const permissionRoutes = {
  listPermissions: route('GET /v1/sessions/{id}/permissions', 'Permissions', {
    auth: session('view'),
    summary: 'What was asked for in a session, oldest first; with state=pending what waits for a decision',
    query: z.strictObject({ state: z.enum(['pending', 'resolved']).optional() }),
    response: z.object({ permissions: z.array(PermissionInfo) }),
  }),

  getPermission: route('GET /v1/sessions/{id}/permissions/{permission}', 'Permissions', {
    auth: session('view'),
    summary: 'One request, and how it was decided',
    params: PermissionParams,
    response: PermissionInfo,
  }),

  decidePermission: route('POST /v1/sessions/{id}/permissions/{permission}', 'Permissions', {
    auth: session('use'),
    summary:
      'Allow or deny what waits, or leave it to others; the first decision counts, a later one is ALREADY_RESOLVED',
    audit: 'session.permission',
    whileDraining: true,
    params: PermissionParams,
    body: z.discriminatedUnion('decision', [...PermissionDecision.options, Abstention]),
    response: PermissionInfo,
  }),

  listRules: route('GET /v1/permission-rules', 'Permissions', {
    auth: user(),
    summary: 'What you have allowed for good: in each session where you prompt an agent or run code',
    response: RuleList,
  }),

  addRule: route('POST /v1/permission-rules', 'Permissions', {
    auth: user('use'),
    summary: 'Allow a tool for good where its use fits a pattern',
    audit: 'permission-rule.add',
    body: NewRule,
    response: PermissionRule,
    status: 201,
  }),

  deleteRule: route('DELETE /v1/permission-rules/{rule}', 'Permissions', {
    auth: user('use'),
    summary: 'Allow it no longer',
    audit: 'permission-rule.delete',
    params: z.object({ rule: RuleId }),
  }),

  listSessionRules: route('GET /v1/sessions/{id}/permission-rules', 'Permissions', {
    auth: session('view'),
    summary: 'What is allowed in this session until it is deleted',
    response: RuleList,
  }),

  deleteSessionRule: route('DELETE /v1/sessions/{id}/permission-rules/{rule}', 'Permissions', {
    auth: session('use'),
    summary: 'Allow it no longer in this session',
    audit: 'session.permission-rule-delete',
    params: z.object({ id: SessionId, rule: RuleId }),
  }),
};
