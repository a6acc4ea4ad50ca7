/** The routes of sessions themselves. */

import { z } from 'zod';
import { AgentInfo } from '../kernel-state.ts';
import {
  NewFork,
  NewSession,
  SessionChange,
  SessionInfo,
  SessionPage,
  SessionStates,
  ShareRequest,
} from '../session-info.ts';
import { asGiven } from './as-given.ts';
import { anyUser, endpoint, mayManage, mayView } from './endpoint.ts';

export { AgentInfo } from '../kernel-state.ts';
export type { ShareRequest as ShareWish } from '../session-info.ts';

const sessionsTag = 'Sessions';
const shares = z.array(ShareRequest).max(256).optional();

export const CreateSession = endpoint('post /v1/sessions', sessionsTag, anyUser, {
  summary: 'Make a session, or get the one that has this agent key and the same options',
  audit: 'session.create',
  body: asGiven(NewSession.extend({ shares }).prefault({})),
  result: SessionInfo,
  status: 201,
});

/** As the query of an address can say it: `label=team=risk` any number of times. */
const ListQuery = z.strictObject({
  agentKey: z.string().max(1024).optional(),
  owner: z.string().max(128).optional().meta({ description: 'The name or id of a user.' }),
  label: z
    .union([z.string(), z.array(z.string())])
    .optional()
    .meta({ description: '`name=value`, any number of times.' }),
  state: SessionStates.optional(),
  limit: z.coerce.number().int().min(1).max(1000).default(100),
  cursor: z.string().max(1024).optional().meta({ description: '`next` of the page before.' }),
});

export const ListSessions = endpoint('get /v1/sessions', sessionsTag, anyUser, {
  summary: 'Your sessions and those that are shared with you, oldest first',
  query: ListQuery,
  result: SessionPage,
});

export const ListAgents = endpoint('get /v1/agents', sessionsTag, anyUser, {
  summary: 'Your agents and what is kept of them, those without a session too',
  result: z.object({ agents: z.array(AgentInfo).readonly() }),
});

export const GetSession = endpoint('get /v1/sessions/{id}', sessionsTag, mayView, {
  summary: 'What is known of a session',
  result: SessionInfo,
});

export const UpdateSession = endpoint('patch /v1/sessions/{id}', sessionsTag, mayManage, {
  summary: 'Change name, labels, shares or options',
  audit: 'session.update',
  body: asGiven(SessionChange.extend({ shares })),
  result: SessionInfo,
});

export const DeleteSession = endpoint('delete /v1/sessions/{id}', sessionsTag, mayManage, {
  summary: 'Delete a session with all that it has: kernel, workspace, events, checkpoints',
  audit: 'session.delete',
});

export const ConfirmFork = endpoint('post /v1/sessions/{id}/confirm', sessionsTag, mayManage, {
  summary:
    'Confirm a fork of another user’s session: its code may use your tools, skills, artifacts, packages and agents. Its owner only',
  audit: 'session.confirm',
  result: SessionInfo,
});

export const ForkSession = endpoint('post /v1/sessions/{id}/fork', sessionsTag, mayManage, {
  summary: 'Make another session with the same memory, in the same workspace',
  audit: 'session.fork',
  body: asGiven(NewFork),
  result: SessionInfo,
  status: 201,
});
