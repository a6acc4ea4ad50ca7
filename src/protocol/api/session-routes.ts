/** Routes of sessions: create, change and share them, checkpoints and transactions, completion and variables. */

import { z } from 'zod';
import {
  Checkpoint,
  Completeness,
  Completion,
  HistoryEntry,
  Inspection,
  KernelInfo,
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
import { queryInt, route, session, user, validateOnly } from './route.ts';

const shares = z.array(ShareRequest).max(256).optional();

/** As the query of an address can say it: `label=team=risk` any number of times. */
const ListQuery = z.strictObject({
  agentKey: z.string().max(1024).optional(),
  owner: z.string().max(128).optional().meta({ description: 'The name or id of a user.' }),
  label: z
    .union([z.string(), z.array(z.string())])
    .optional()
    .meta({ description: '`name=value`, any number of times.' }),
  state: SessionStates.optional(),
  limit: queryInt().min(1).max(1000).default(100),
  cursor: z.string().max(1024).optional().meta({ description: '`next` of the page before.' }),
});

const checkpointName = z.string().min(1).max(200);
const CheckpointParams = z.object({ id: SessionId, checkpoint: checkpointName });

const code = z.string().max(1_000_000);
const CodeAtCursor = z.strictObject({
  code,
  cursor: z.int().min(0).optional().meta({ description: 'UTF-16 offset; the end by default.' }),
});

export const sessionRoutes = {
  createSession: route('POST /v1/sessions', 'Sessions', {
    auth: user('manage'),
    summary: 'Make a session, or get the one that has this agent key and the same options',
    audit: 'session.create',
    body: validateOnly(NewSession.extend({ shares }).prefault({})),
    response: SessionInfo,
    status: 201,
  }),

  listSessions: route('GET /v1/sessions', 'Sessions', {
    auth: user('view'),
    summary: 'Your sessions and those that are shared with you, oldest first',
    query: ListQuery,
    response: SessionPage,
  }),

  listKernels: route('GET /v1/kernels', 'Sessions', {
    auth: user('view'),
    summary: 'Your kernels by agent key, those without a session too',
    response: z.object({ kernels: z.array(KernelInfo).readonly() }),
  }),

  getSession: route('GET /v1/sessions/{id}', 'Sessions', {
    auth: session('view', { claim: false }),
    summary: 'What is known of a session',
    response: SessionInfo,
  }),

  updateSession: route('PATCH /v1/sessions/{id}', 'Sessions', {
    auth: session('manage'),
    summary: 'Change name, labels, shares or options',
    audit: 'session.update',
    body: validateOnly(SessionChange.extend({ shares })),
    response: SessionInfo,
  }),

  deleteSession: route('DELETE /v1/sessions/{id}', 'Sessions', {
    auth: session('manage'),
    summary: 'Delete a session with all that it has: kernel, workspace, events, checkpoints',
    audit: 'session.delete',
  }),

  confirmFork: route('POST /v1/sessions/{id}/confirm', 'Sessions', {
    auth: session('manage'),
    summary:
      'Confirm a fork of another user’s session: its code may use your tools, skills, artifacts, packages and agents. Its owner only',
    audit: 'session.confirm',
    response: SessionInfo,
  }),

  forkSession: route('POST /v1/sessions/{id}/fork', 'Sessions', {
    auth: session('manage'),
    summary: 'Make another session with the same memory, in the same workspace',
    audit: 'session.fork',
    body: validateOnly(NewFork),
    response: SessionInfo,
    status: 201,
  }),
};

export const stateRoutes = {
  createCheckpoint: route('POST /v1/sessions/{id}/checkpoints', 'State', {
    auth: session('use'),
    audit: 'session.checkpoint',
    summary: 'Keep this moment',
    body: z.strictObject({ name: z.string().min(1).max(200).optional(), durable: z.boolean().optional() }).prefault({}),
    response: Checkpoint,
    status: 201,
  }),

  listCheckpoints: route('GET /v1/sessions/{id}/checkpoints', 'State', {
    auth: session('view'),
    summary: 'The points to go back to, oldest first',
    response: z.object({ checkpoints: z.array(Checkpoint).readonly() }),
  }),

  restoreCheckpoint: route('POST /v1/sessions/{id}/checkpoints/{checkpoint}/restore', 'State', {
    auth: session('use'),
    audit: 'session.restore',
    summary: 'Go back, by id or name',
    params: CheckpointParams,
    response: Restored,
  }),

  deleteCheckpoint: route('DELETE /v1/sessions/{id}/checkpoints/{checkpoint}', 'State', {
    auth: session('use'),
    audit: 'session.delete-checkpoint',
    summary: 'Delete a checkpoint, by id or name',
    params: CheckpointParams,
  }),

  commitTransaction: route('POST /v1/sessions/{id}/commit', 'State', {
    auth: session('use'),
    audit: 'session.commit',
    summary: 'Keep the changes of an explicit transaction',
  }),

  rollbackTransaction: route('POST /v1/sessions/{id}/rollback', 'State', {
    auth: session('use'),
    audit: 'session.rollback',
    summary: 'Take the changes of an explicit transaction back',
  }),

  undoCell: route('POST /v1/sessions/{id}/undo', 'State', {
    auth: session('use'),
    audit: 'session.undo',
    summary: 'Go back to before the last cell',
  }),

  saveSession: route('POST /v1/sessions/{id}/save', 'State', {
    auth: session('use'),
    audit: 'session.save',
    summary: 'Write what has changed to storage',
  }),

  hibernateSession: route('POST /v1/sessions/{id}/hibernate', 'State', {
    auth: session('use'),
    audit: 'session.hibernate',
    summary: 'Save the names and end the kernel until the next call',
  }),

  resetSession: route('POST /v1/sessions/{id}/reset', 'State', {
    auth: session('use'),
    audit: 'session.reset',
    summary: 'Clear every name; what runs is ended',
  }),

  restartSession: route('POST /v1/sessions/{id}/restart', 'State', {
    auth: session('use'),
    audit: 'session.restart',
    summary: 'End the sandbox and start another; the workspace stays',
  }),

  completeCode: route('POST /v1/sessions/{id}/complete', 'Introspection', {
    auth: session('use'),
    summary: 'What may stand at the cursor',
    body: CodeAtCursor,
    response: Completion,
  }),

  inspectCode: route('POST /v1/sessions/{id}/inspect', 'Introspection', {
    auth: session('use'),
    summary: 'What the name at the cursor is',
    body: CodeAtCursor,
    response: Inspection,
  }),

  checkComplete: route('POST /v1/sessions/{id}/is-complete', 'Introspection', {
    auth: session('use'),
    summary: 'Whether code is a whole cell',
    body: z.strictObject({ code }),
    response: Completeness,
  }),

  /** It wakes the kernel, so that looking needs the right to use. */
  listVariables: route('GET /v1/sessions/{id}/variables', 'Introspection', {
    auth: session('use'),
    summary: 'The names of the code, with type, size and preview',
    response: z.object({ variables: z.array(Variable).readonly() }),
  }),

  readHistory: route('GET /v1/sessions/{id}/history', 'Introspection', {
    auth: session('view'),
    summary: 'The cells that were run',
    response: z.object({ history: z.array(HistoryEntry).readonly() }),
  }),
};
