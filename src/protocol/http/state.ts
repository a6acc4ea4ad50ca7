/** The state of a session's kernel: points to go back to, transactions, saving and ending it. */

import { z } from 'zod';
import { endpoint } from './endpoint.ts';
import { SessionId } from './sessions.ts';

const tag = 'State';
const view = { kind: 'session', right: 'view' } as const;
const use = { kind: 'session', right: 'use' } as const;

const Lost = z.object({ name: z.string(), reason: z.string() });

const CheckpointInfo = z
  .object({
    id: z.string(),
    name: z.string().exactOptional(),
    kind: z.enum(['live', 'durable']),
    automatic: z.boolean(),
    createdAt: z.number(),
    execution: z.int(),
    bytes: z.int().exactOptional(),
    python: z.string().exactOptional(),
    saved: z.array(z.string()).readonly().exactOptional(),
    lost: z.array(Lost).readonly().exactOptional(),
    gone: z.string().exactOptional(),
  })
  .meta({ id: 'Checkpoint' });

const checkpoint = z.string().min(1).max(200);
const OfCheckpoint = z.object({ id: SessionId, checkpoint });

export const CreateCheckpoint = endpoint('post /v1/sessions/{id}/checkpoints', tag, use, {
  audit: 'session.checkpoint',
  summary: 'Keep this moment',
  body: z.strictObject({ name: z.string().min(1).max(200).optional(), durable: z.boolean().optional() }).prefault({}),
  result: CheckpointInfo,
  status: 201,
});

export const ListCheckpoints = endpoint('get /v1/sessions/{id}/checkpoints', tag, view, {
  summary: 'The points to go back to, oldest first',
  result: z.object({ checkpoints: z.array(CheckpointInfo).readonly() }),
});

export const RestoreCheckpoint = endpoint('post /v1/sessions/{id}/checkpoints/{checkpoint}/restore', tag, use, {
  audit: 'session.restore',
  summary: 'Go back, by id or name',
  params: OfCheckpoint,
  result: z.object({
    checkpoint: CheckpointInfo,
    restored: z.array(z.string()).readonly().exactOptional(),
    lost: z.array(Lost).readonly().exactOptional(),
  }),
});

export const DeleteCheckpoint = endpoint('delete /v1/sessions/{id}/checkpoints/{checkpoint}', tag, use, {
  audit: 'session.delete-checkpoint',
  summary: 'Delete a checkpoint, by id or name',
  params: OfCheckpoint,
});

export const CommitTransaction = endpoint('post /v1/sessions/{id}/commit', tag, use, {
  audit: 'session.commit',
  summary: 'Keep the changes of an explicit transaction',
});
export const RollbackTransaction = endpoint('post /v1/sessions/{id}/rollback', tag, use, {
  audit: 'session.rollback',
  summary: 'Take the changes of an explicit transaction back',
});
export const UndoCell = endpoint('post /v1/sessions/{id}/undo', tag, use, {
  audit: 'session.undo',
  summary: 'Go back to before the last cell',
});
export const SaveSession = endpoint('post /v1/sessions/{id}/save', tag, use, {
  audit: 'session.save',
  summary: 'Write what has changed to storage',
});
export const HibernateSession = endpoint('post /v1/sessions/{id}/hibernate', tag, use, {
  audit: 'session.hibernate',
  summary: 'Save the names and end the kernel until the next call',
});
export const ResetSession = endpoint('post /v1/sessions/{id}/reset', tag, use, {
  audit: 'session.reset',
  summary: 'Clear every name; what runs is ended',
});
export const RestartSession = endpoint('post /v1/sessions/{id}/restart', tag, use, {
  audit: 'session.restart',
  summary: 'End the sandbox and start another; the workspace stays',
});
