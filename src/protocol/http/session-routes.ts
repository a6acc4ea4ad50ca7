/** The routes of sessions themselves. */

import { z } from 'zod';
import { Right, Share } from '../access.ts';
import { asGiven } from './as-given.ts';
import { endpoint } from './endpoint.ts';
import { NewFork, NewSession, SessionChange, SessionInfo, SessionPage, SessionStates } from './sessions.ts';

const tag = 'Sessions';
const anybody = { kind: 'anybody' } as const;
const view = { kind: 'session', right: 'view' } as const;
const manage = { kind: 'session', right: 'manage' } as const;

/** A user by name or id, or a role; as a session tells its shares, too. */
export const ShareWish = z.union([z.strictObject({ user: z.string().min(1).max(128), right: Right }), Share]);
export type ShareWish = z.infer<typeof ShareWish>;
const shares = z.array(ShareWish).max(256).optional();

export const CreateSession = endpoint('post /v1/sessions', tag, anybody, {
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

export const ListSessions = endpoint('get /v1/sessions', tag, anybody, {
  summary: 'Your sessions and those that are shared with you, oldest first',
  query: ListQuery,
  result: SessionPage,
});

export const AgentInfo = z
  .object({
    agentKey: z.string(),
    state: z.enum(['live', 'hibernated']),
    holder: z.object({ pid: z.int(), since: z.number() }).exactOptional(),
    pid: z.int().exactOptional(),
    memoryBytes: z.number().exactOptional(),
    idleMs: z.number(),
    lastSave: z.object({ id: z.string(), at: z.number() }).exactOptional(),
    executions: z.int(),
    workspaceOf: z.string().exactOptional(),
  })
  .meta({ id: 'AgentInfo' });

export const ListAgents = endpoint('get /v1/agents', tag, anybody, {
  summary: 'Your agents and what is kept of them, those without a session too',
  result: z.object({ agents: z.array(AgentInfo).readonly() }),
});

export const GetSession = endpoint('get /v1/sessions/{id}', tag, view, {
  summary: 'What is known of a session',
  result: SessionInfo,
});

export const UpdateSession = endpoint('patch /v1/sessions/{id}', tag, manage, {
  summary: 'Change name, labels, shares or options',
  audit: 'session.update',
  body: asGiven(SessionChange.extend({ shares })),
  result: SessionInfo,
});

export const DeleteSession = endpoint('delete /v1/sessions/{id}', tag, manage, {
  summary: 'Delete a session with all that it has: kernel, workspace, events, checkpoints',
  audit: 'session.delete',
});

export const ConfirmFork = endpoint('post /v1/sessions/{id}/confirm', tag, manage, {
  summary:
    'Confirm a fork of another user’s session: its code may use your tools, skills, artifacts, packages and agents. Its owner only',
  audit: 'session.confirm',
  result: SessionInfo,
});

export const ForkSession = endpoint('post /v1/sessions/{id}/fork', tag, manage, {
  summary: 'Make another session with the same memory, in the same workspace',
  audit: 'session.fork',
  body: asGiven(NewFork),
  result: SessionInfo,
  status: 201,
});
