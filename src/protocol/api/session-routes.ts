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
import { boundedList } from '../parse.ts';
import {
  AgentKey,
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

const shares = boundedList(z.array(ShareRequest).max(256), 256).optional();

/** The query form: `label=team=risk`, any number of times. */
const ListQuery = z.strictObject({
  agentKey: z.string().max(1024).optional(),
  owner: z.string().max(128).optional().meta({ description: 'The name or id of a user.' }),
  label: z
    .union([z.string(), z.array(z.string())])
    .optional()
    .meta({ description: '`name=value`; may be repeated.' }),
  state: SessionStates.optional(),
  limit: queryInt().min(1).max(1000).default(100),
  cursor: z.string().max(1024).optional().meta({ description: '`next` of the previous page.' }),
});

const checkpointName = z.string().min(1).max(200);
const CheckpointParams = z.object({ id: SessionId, checkpoint: checkpointName });
const KernelCheckpointParams = z.object({ key: AgentKey, checkpoint: checkpointName });

const code = z.string().max(1_000_000);
const CodeAtCursor = z.strictObject({
  code,
  cursor: z.int().min(0).optional().meta({ description: 'A UTF-16 offset; default: the end of the code.' }),
});

export const sessionRoutes = {
  createSession: route('POST /v1/sessions', 'Sessions', {
    auth: user('manage'),
    summary: 'Create a session, or get the one with this agent key and the same options',
    audit: 'session.create',
    body: validateOnly(NewSession.extend({ shares }).prefault({})),
    response: SessionInfo,
    status: 201,
  }),

  listSessions: route('GET /v1/sessions', 'Sessions', {
    auth: user('view'),
    summary: 'List your sessions and those that are shared with you, oldest first',
    query: ListQuery,
    response: SessionPage,
  }),

  listKernels: route('GET /v1/kernels', 'Sessions', {
    auth: user('view'),
    summary: 'List your kernels by agent key, including those without a session',
    response: z.object({ kernels: z.array(KernelInfo).readonly() }),
  }),

  getSession: route('GET /v1/sessions/{id}', 'Sessions', {
    auth: session('view', { claim: false }),
    summary: 'Get a session',
    response: SessionInfo,
  }),

  updateSession: route('PATCH /v1/sessions/{id}', 'Sessions', {
    auth: session('manage'),
    summary: 'Change the name, labels, shares or options of a session',
    audit: 'session.update',
    body: validateOnly(SessionChange.extend({ shares })),
    response: SessionInfo,
  }),

  deleteSession: route('DELETE /v1/sessions/{id}', 'Sessions', {
    auth: session('manage'),
    summary: 'Delete a session with its kernel, workspace, events and checkpoints',
    audit: 'session.delete',
  }),

  confirmFork: route('POST /v1/sessions/{id}/confirm', 'Sessions', {
    auth: session('manage'),
    summary:
      'Confirm a fork of another user’s session, so that its code may use your tools, skills, artifacts, packages and agents; only for the owner of the fork',
    audit: 'session.confirm',
    response: SessionInfo,
  }),

  forkSession: route('POST /v1/sessions/{id}/fork', 'Sessions', {
    auth: session('manage'),
    summary: 'Fork a session: create another one with the same memory, in the same workspace',
    audit: 'session.fork',
    body: validateOnly(NewFork),
    response: SessionInfo,
    status: 201,
  }),
};

const checkpointPage = z.strictObject({
  limit: queryInt().min(1).max(1000).default(100),
  after: z.string().max(200).optional().meta({ description: '`next` of the previous page.' }),
});
const CheckpointPage = z.object({
  checkpoints: z.array(Checkpoint).readonly(),
  next: z.string().optional().meta({ description: 'The value of `after` for the next page; absent on the last page.' }),
});

/** Durable checkpoints belong to an agent key, whether or not it has a session. */
export const kernelCheckpointRoutes = {
  listKernelCheckpoints: route('GET /v1/kernels/{key}/checkpoints', 'State', {
    auth: user('view'),
    summary: 'List the durable checkpoints of one of your agent keys, oldest first; starts no kernel',
    params: z.object({ key: AgentKey }),
    query: checkpointPage,
    response: CheckpointPage,
  }),

  getKernelCheckpoint: route('GET /v1/kernels/{key}/checkpoints/{checkpoint}', 'State', {
    auth: user('view'),
    summary: 'Get a durable checkpoint by id or name',
    params: KernelCheckpointParams,
    response: Checkpoint,
  }),

  deleteKernelCheckpoint: route('DELETE /v1/kernels/{key}/checkpoints/{checkpoint}', 'State', {
    auth: user('use'),
    summary: 'Delete a durable checkpoint by id or name',
    audit: 'kernel.delete-checkpoint',
    params: KernelCheckpointParams,
  }),
};

export const stateRoutes = {
  createCheckpoint: route('POST /v1/sessions/{id}/checkpoints', 'State', {
    auth: session('use'),
    audit: 'session.checkpoint',
    summary: 'Create a checkpoint',
    body: z.strictObject({ name: z.string().min(1).max(200).optional(), durable: z.boolean().optional() }).prefault({}),
    response: Checkpoint,
    status: 201,
  }),

  listCheckpoints: route('GET /v1/sessions/{id}/checkpoints', 'State', {
    auth: session('view'),
    summary: 'List checkpoints, oldest first',
    query: checkpointPage,
    response: CheckpointPage,
  }),

  restoreCheckpoint: route('POST /v1/sessions/{id}/checkpoints/{checkpoint}/restore', 'State', {
    auth: session('use'),
    audit: 'session.restore',
    summary: 'Restore a checkpoint by id or name',
    params: CheckpointParams,
    response: Restored,
  }),

  deleteCheckpoint: route('DELETE /v1/sessions/{id}/checkpoints/{checkpoint}', 'State', {
    auth: session('use'),
    audit: 'session.delete-checkpoint',
    summary: 'Delete a checkpoint by id or name',
    params: CheckpointParams,
  }),

  commitTransaction: route('POST /v1/sessions/{id}/commit', 'State', {
    auth: session('use'),
    audit: 'session.commit',
    summary: 'Commit an explicit transaction',
  }),

  rollbackTransaction: route('POST /v1/sessions/{id}/rollback', 'State', {
    auth: session('use'),
    audit: 'session.rollback',
    summary: 'Roll back an explicit transaction',
  }),

  undoCell: route('POST /v1/sessions/{id}/undo', 'State', {
    auth: session('use'),
    audit: 'session.undo',
    summary: 'Undo the last cell',
  }),

  saveSession: route('POST /v1/sessions/{id}/save', 'State', {
    auth: session('use'),
    audit: 'session.save',
    summary: 'Save changed variables to storage',
  }),

  hibernateSession: route('POST /v1/sessions/{id}/hibernate', 'State', {
    auth: session('use'),
    audit: 'session.hibernate',
    summary: 'Save the variables and end the kernel; the next call resumes it',
  }),

  resetSession: route('POST /v1/sessions/{id}/reset', 'State', {
    auth: session('use'),
    audit: 'session.reset',
    summary: 'Clear all variables; ends running code',
  }),

  restartSession: route('POST /v1/sessions/{id}/restart', 'State', {
    auth: session('use'),
    audit: 'session.restart',
    summary: 'Replace the sandbox with a fresh one; the workspace stays',
  }),

  completeCode: route('POST /v1/sessions/{id}/complete', 'Introspection', {
    auth: session('use'),
    summary: 'Complete code at the cursor',
    body: CodeAtCursor,
    response: Completion,
  }),

  inspectCode: route('POST /v1/sessions/{id}/inspect', 'Introspection', {
    auth: session('use'),
    summary: 'Describe the name at the cursor',
    body: CodeAtCursor,
    response: Inspection,
  }),

  checkComplete: route('POST /v1/sessions/{id}/is-complete', 'Introspection', {
    auth: session('use'),
    summary: 'Check whether code is a complete cell',
    body: z.strictObject({ code }),
    response: Completeness,
  }),

  /** Needs the right `use` even for reading, because it resumes the kernel. */
  listVariables: route('GET /v1/sessions/{id}/variables', 'Introspection', {
    auth: session('use'),
    summary: 'List variables with type, size and preview',
    response: z.object({ variables: z.array(Variable).readonly() }),
  }),

  readHistory: route('GET /v1/sessions/{id}/history', 'Introspection', {
    auth: session('view'),
    summary: 'List past cells',
    response: z.object({ history: z.array(HistoryEntry).readonly() }),
  }),
};
