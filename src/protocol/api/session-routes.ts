/** Routes of sessions: create, change and share them, checkpoints and transactions, completion and variables. */

import { z } from 'zod';
import {
  AgentInfo,
  Checkpoint,
  Completeness,
  Completion,
  HistoryEntry,
  Inspection,
  Restored,
  Variable,
} from '../kernel-state.ts';
import {
  NewFork,
  NewSession,
  SessionChange,
  SessionId,
  SessionInfo,
  SessionPage,
  SessionStates,
  ShareRequest,
} from '../session-info.ts';
import { anyUser, mayManage, mayUse, mayView, route, validateOnly } from './route.ts';

export type { ShareRequest as ShareWish } from '../session-info.ts';

const sessionsTag = 'Sessions';
const shares = z.array(ShareRequest).max(256).optional();

export const CreateSession = route('post /v1/sessions', sessionsTag, anyUser, {
  summary: 'Make a session, or get the one that has this agent key and the same options',
  audit: 'session.create',
  body: validateOnly(NewSession.extend({ shares }).prefault({})),
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

export const ListSessions = route('get /v1/sessions', sessionsTag, anyUser, {
  summary: 'Your sessions and those that are shared with you, oldest first',
  query: ListQuery,
  result: SessionPage,
});

export const ListAgents = route('get /v1/agents', sessionsTag, anyUser, {
  summary: 'Your agents and what is kept of them, those without a session too',
  result: z.object({ agents: z.array(AgentInfo).readonly() }),
});

export const GetSession = route('get /v1/sessions/{id}', sessionsTag, mayView, {
  summary: 'What is known of a session',
  result: SessionInfo,
});

export const UpdateSession = route('patch /v1/sessions/{id}', sessionsTag, mayManage, {
  summary: 'Change name, labels, shares or options',
  audit: 'session.update',
  body: validateOnly(SessionChange.extend({ shares })),
  result: SessionInfo,
});

export const DeleteSession = route('delete /v1/sessions/{id}', sessionsTag, mayManage, {
  summary: 'Delete a session with all that it has: kernel, workspace, events, checkpoints',
  audit: 'session.delete',
});

export const ConfirmFork = route('post /v1/sessions/{id}/confirm', sessionsTag, mayManage, {
  summary:
    'Confirm a fork of another user’s session: its code may use your tools, skills, artifacts, packages and agents. Its owner only',
  audit: 'session.confirm',
  result: SessionInfo,
});

export const ForkSession = route('post /v1/sessions/{id}/fork', sessionsTag, mayManage, {
  summary: 'Make another session with the same memory, in the same workspace',
  audit: 'session.fork',
  body: validateOnly(NewFork),
  result: SessionInfo,
  status: 201,
});

const stateTag = 'State';

const checkpointName = z.string().min(1).max(200);
const CheckpointParams = z.object({ id: SessionId, checkpoint: checkpointName });

export const CreateCheckpoint = route('post /v1/sessions/{id}/checkpoints', stateTag, mayUse, {
  audit: 'session.checkpoint',
  summary: 'Keep this moment',
  body: z.strictObject({ name: z.string().min(1).max(200).optional(), durable: z.boolean().optional() }).prefault({}),
  result: Checkpoint,
  status: 201,
});

export const ListCheckpoints = route('get /v1/sessions/{id}/checkpoints', stateTag, mayView, {
  summary: 'The points to go back to, oldest first',
  result: z.object({ checkpoints: z.array(Checkpoint).readonly() }),
});

export const RestoreCheckpoint = route('post /v1/sessions/{id}/checkpoints/{checkpoint}/restore', stateTag, mayUse, {
  audit: 'session.restore',
  summary: 'Go back, by id or name',
  params: CheckpointParams,
  result: Restored,
});

export const DeleteCheckpoint = route('delete /v1/sessions/{id}/checkpoints/{checkpoint}', stateTag, mayUse, {
  audit: 'session.delete-checkpoint',
  summary: 'Delete a checkpoint, by id or name',
  params: CheckpointParams,
});

export const CommitTransaction = route('post /v1/sessions/{id}/commit', stateTag, mayUse, {
  audit: 'session.commit',
  summary: 'Keep the changes of an explicit transaction',
});
export const RollbackTransaction = route('post /v1/sessions/{id}/rollback', stateTag, mayUse, {
  audit: 'session.rollback',
  summary: 'Take the changes of an explicit transaction back',
});
export const UndoCell = route('post /v1/sessions/{id}/undo', stateTag, mayUse, {
  audit: 'session.undo',
  summary: 'Go back to before the last cell',
});
export const SaveSession = route('post /v1/sessions/{id}/save', stateTag, mayUse, {
  audit: 'session.save',
  summary: 'Write what has changed to storage',
});
export const HibernateSession = route('post /v1/sessions/{id}/hibernate', stateTag, mayUse, {
  audit: 'session.hibernate',
  summary: 'Save the names and end the kernel until the next call',
});
export const ResetSession = route('post /v1/sessions/{id}/reset', stateTag, mayUse, {
  audit: 'session.reset',
  summary: 'Clear every name; what runs is ended',
});
export const RestartSession = route('post /v1/sessions/{id}/restart', stateTag, mayUse, {
  audit: 'session.restart',
  summary: 'End the sandbox and start another; the workspace stays',
});

const introspectionTag = 'Introspection';
const code = z.string().max(1_000_000);
const CodeAtCursor = z.strictObject({
  code,
  cursor: z.int().min(0).optional().meta({ description: 'UTF-16 offset; the end by default.' }),
});

export const CompleteCode = route('post /v1/sessions/{id}/complete', introspectionTag, mayUse, {
  summary: 'What may stand at the cursor',
  body: CodeAtCursor,
  result: Completion,
});

export const InspectCode = route('post /v1/sessions/{id}/inspect', introspectionTag, mayUse, {
  summary: 'What the name at the cursor is',
  body: CodeAtCursor,
  result: Inspection,
});

export const IsComplete = route('post /v1/sessions/{id}/is-complete', introspectionTag, mayUse, {
  summary: 'Whether code is a whole cell',
  body: z.strictObject({ code }),
  result: Completeness,
});

/** It wakes the kernel, so that looking needs the right to use. */
export const ListVariables = route('get /v1/sessions/{id}/variables', introspectionTag, mayUse, {
  summary: 'The names of the code, with type, size and preview',
  result: z.object({ variables: z.array(Variable).readonly() }),
});

export const ReadHistory = route('get /v1/sessions/{id}/history', introspectionTag, mayView, {
  summary: 'The cells that were run',
  result: z.object({ history: z.array(HistoryEntry).readonly() }),
});
