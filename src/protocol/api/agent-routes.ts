/** Routes of coding agents: prompts, turns, conversations, permissions and profiles. */

import { z } from 'zod';
import { AgentProfile, NamedProfile, ProfileName } from '../agent-profile.ts';
import { Conversation } from '../conversation.ts';
import { Abstention, NewRule, PermissionDecision, PermissionInfo, PermissionRule, RuleId } from '../permission.ts';
import { milliseconds, SessionId } from '../session-info.ts';
import {
  AgentName,
  CodingAgent,
  DayUsage,
  ModelName,
  ModelUsage,
  PermissionId,
  PermissionMode,
  Prompted,
  ToolNames,
  Transcript,
  TurnId,
  TurnInfo,
} from '../turn.ts';
import { Idempotent } from './execution-routes.ts';
import { anyUser, mayUse, mayView, route } from './route.ts';

const agentsTag = 'Agents';
const streams = ['application/x-ndjson', 'text/event-stream'];

/** Escaped, even the worst text of this length fits into one message of the executor protocol. */
const MOST_PROMPT = 1_300_000;

export const promptFields = {
  prompt: z.string().min(1).max(MOST_PROMPT),
  agent: AgentName.optional().meta({ description: 'That of the turn before, else claude.' }),
  mode: PermissionMode.optional().meta({ description: '`ask` where nothing is said.' }),
  model: ModelName.optional(),
  tools: ToolNames.optional().meta({ description: 'Those of the agent’s own tools that it may use; without it, all.' }),
  timeoutMs: milliseconds.optional().meta({ description: 'Of the turn, once it runs; 0 means no limit.' }),
  onBusy: z.enum(['queue', 'refuse']).optional().meta({ description: '`refuse`: 409 where another turn runs.' }),
  profile: ProfileName.optional().meta({ description: 'The name of a profile of yours.' }),
};

const PromptBody = z.strictObject({
  ...promptFields,
  wait: z
    .boolean()
    .optional()
    .meta({ description: 'False: answers at once with the turn as it was accepted. Streams do not heed it.' }),
  stopWhenGone: z.boolean().optional().meta({ description: 'Stops the turn where the client goes away.' }),
});

export const PromptAgent = route('post /v1/sessions/{id}/prompt', agentsTag, mayUse, {
  summary: 'Prompt the agent of a session: how its turn ended as JSON, or its events as they come, by Accept',
  audit: 'session.prompt',
  headers: Idempotent,
  body: PromptBody,
  result: Prompted,
  gives: streams,
});

export const StopAgent = route('post /v1/sessions/{id}/stop', agentsTag, mayUse, {
  summary: 'Stop the turn that runs, or the one that is named, also where it waits; with all: true every one',
  audit: 'session.stop',
  whileStopping: true,
  body: z.strictObject({ turn: TurnId.optional(), all: z.boolean().optional() }).prefault({}),
  result: z.object({
    /** Those that were stopped: none where none ran. */
    turns: z.array(TurnId),
  }),
});

export const ListCodingAgents = route('get /v1/sessions/{id}/agents', agentsTag, mayView, {
  summary: 'The coding agents that a session can be worked in by, and which of them are installed',
  result: z.object({ agents: z.array(CodingAgent).readonly() }),
});

export const WarmAgent = route('post /v1/sessions/{id}/agents/{agent}/warm', agentsTag, mayUse, {
  summary: 'Tell that a prompt is about to come: its executor is started ahead, where there is room for one',
  params: z.object({ id: SessionId, agent: AgentName }),
  result: z.object({
    /** Whether there is one, or one is being started. */
    warm: z.boolean(),
  }),
});

export const ListTurns = route('get /v1/sessions/{id}/turns', agentsTag, mayView, {
  summary: 'The turns of a session, newest first',
  query: z.strictObject({
    limit: z.coerce.number().int().min(1).max(1000).default(100),
    before: TurnId.optional().meta({ description: '`next` of the page before.' }),
  }),
  result: z.object({ turns: z.array(TurnInfo), next: TurnId.optional() }),
});

export const GetTurn = route('get /v1/sessions/{id}/turns/{turn}', agentsTag, mayView, {
  summary: 'One turn as it is now',
  params: z.object({ id: SessionId, turn: TurnId }),
  result: TurnInfo,
});

export const ReadTranscript = route('get /v1/sessions/{id}/transcript', agentsTag, mayView, {
  summary: 'The conversation as the agent keeps it: the last one, or the one that is named',
  query: z.strictObject({ conversation: z.string().min(1).max(200).optional() }),
  result: Transcript,
});

export const ReadUsage = route('get /v1/sessions/{id}/usage', agentsTag, mayView, {
  summary: 'What the agents of a session have used of models, and what it cost',
  result: ModelUsage.meta({ id: 'ModelUsage' }),
});

export const ReadOwnUsage = route('get /v1/usage', agentsTag, anyUser, {
  summary: 'What you have used of models, by day',
  query: z.strictObject({ days: z.coerce.number().int().min(1).max(366).default(31) }),
  result: z.object({ days: z.array(DayUsage) }),
});

const ProfileParams = z.object({ name: ProfileName });

export const ListProfiles = route('get /v1/profiles', agentsTag, anyUser, {
  summary: 'Your profiles for agents',
  result: z.object({ profiles: z.array(NamedProfile) }),
});

export const GetProfile = route('get /v1/profiles/{name}', agentsTag, anyUser, {
  summary: 'One of your profiles',
  params: ProfileParams,
  result: NamedProfile,
});

export const PutProfile = route('put /v1/profiles/{name}', agentsTag, anyUser, {
  summary: 'Make a profile, or put another in its place',
  audit: 'profile.put',
  params: ProfileParams,
  body: AgentProfile,
  result: NamedProfile,
});

export const DeleteProfile = route('delete /v1/profiles/{name}', agentsTag, anyUser, {
  summary: 'Delete one of your profiles',
  audit: 'profile.delete',
  params: ProfileParams,
});

export const ReadConversation = route('get /v1/sessions/{id}/conversation', 'Agents', mayView, {
  summary: 'What the agents of a session have done, as the kept events add up: turns, items, plan, files, permissions',
  result: Conversation,
});

const permissionsTag = 'Permissions';

const PermissionParams = z.object({ id: SessionId, permission: PermissionId });

export const ListPermissions = route('get /v1/sessions/{id}/permissions', permissionsTag, mayView, {
  summary: 'What was asked for in a session, oldest first; with state=pending what waits for a decision',
  query: z.strictObject({ state: z.enum(['pending', 'resolved']).optional() }),
  result: z.object({ permissions: z.array(PermissionInfo) }),
});

export const GetPermission = route('get /v1/sessions/{id}/permissions/{permission}', permissionsTag, mayView, {
  summary: 'One request, and how it was decided',
  params: PermissionParams,
  result: PermissionInfo,
});

export const DecidePermission = route('post /v1/sessions/{id}/permissions/{permission}', permissionsTag, mayUse, {
  summary:
    'Allow or deny what waits, or leave it to others; the first decision counts, a later one is ALREADY_RESOLVED',
  audit: 'session.permission',
  whileStopping: true,
  params: PermissionParams,
  body: z.discriminatedUnion('decision', [...PermissionDecision.options, Abstention]),
  result: PermissionInfo,
});

const RuleList = z.object({ rules: z.array(PermissionRule) });

export const ListRules = route('get /v1/permission-rules', permissionsTag, anyUser, {
  summary: 'What you have allowed for good: in each session where you prompt an agent or run code',
  result: RuleList,
});

export const AddRule = route('post /v1/permission-rules', permissionsTag, anyUser, {
  summary: 'Allow a tool for good where its use fits a pattern',
  audit: 'permission-rule.add',
  body: NewRule,
  result: PermissionRule,
  status: 201,
});

export const DeleteRule = route('delete /v1/permission-rules/{rule}', permissionsTag, anyUser, {
  summary: 'Allow it no longer',
  audit: 'permission-rule.delete',
  params: z.object({ rule: RuleId }),
});

export const ListSessionRules = route('get /v1/sessions/{id}/permission-rules', permissionsTag, mayView, {
  summary: 'What is allowed in this session until it is deleted',
  result: RuleList,
});

export const DeleteSessionRule = route('delete /v1/sessions/{id}/permission-rules/{rule}', permissionsTag, mayUse, {
  summary: 'Allow it no longer in this session',
  audit: 'session.permission-rule-delete',
  params: z.object({ id: SessionId, rule: RuleId }),
});
