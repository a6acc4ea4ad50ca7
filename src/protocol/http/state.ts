/** The state of a session's kernel: points to go back to, transactions, saving and ending it. */

import { z } from 'zod';
import { CheckpointInfo, Lost } from '../kernel-state.ts';
import { SessionId } from '../session-info.ts';
import { endpoint, mayUse, mayView } from './endpoint.ts';

const stateTag = 'State';

const checkpoint = z.string().min(1).max(200);
const OfCheckpoint = z.object({ id: SessionId, checkpoint });

export const CreateCheckpoint = endpoint('post /v1/sessions/{id}/checkpoints', stateTag, mayUse, {
  audit: 'session.checkpoint',
  summary: 'Keep this moment',
  body: z.strictObject({ name: z.string().min(1).max(200).optional(), durable: z.boolean().optional() }).prefault({}),
  result: CheckpointInfo,
  status: 201,
});

export const ListCheckpoints = endpoint('get /v1/sessions/{id}/checkpoints', stateTag, mayView, {
  summary: 'The points to go back to, oldest first',
  result: z.object({ checkpoints: z.array(CheckpointInfo).readonly() }),
});

export const RestoreCheckpoint = endpoint('post /v1/sessions/{id}/checkpoints/{checkpoint}/restore', stateTag, mayUse, {
  audit: 'session.restore',
  summary: 'Go back, by id or name',
  params: OfCheckpoint,
  result: z.object({
    checkpoint: CheckpointInfo,
    restored: z.array(z.string()).readonly().exactOptional(),
    lost: z.array(Lost).readonly().exactOptional(),
  }),
});

export const DeleteCheckpoint = endpoint('delete /v1/sessions/{id}/checkpoints/{checkpoint}', stateTag, mayUse, {
  audit: 'session.delete-checkpoint',
  summary: 'Delete a checkpoint, by id or name',
  params: OfCheckpoint,
});

export const CommitTransaction = endpoint('post /v1/sessions/{id}/commit', stateTag, mayUse, {
  audit: 'session.commit',
  summary: 'Keep the changes of an explicit transaction',
});
export const RollbackTransaction = endpoint('post /v1/sessions/{id}/rollback', stateTag, mayUse, {
  audit: 'session.rollback',
  summary: 'Take the changes of an explicit transaction back',
});
export const UndoCell = endpoint('post /v1/sessions/{id}/undo', stateTag, mayUse, {
  audit: 'session.undo',
  summary: 'Go back to before the last cell',
});
export const SaveSession = endpoint('post /v1/sessions/{id}/save', stateTag, mayUse, {
  audit: 'session.save',
  summary: 'Write what has changed to storage',
});
export const HibernateSession = endpoint('post /v1/sessions/{id}/hibernate', stateTag, mayUse, {
  audit: 'session.hibernate',
  summary: 'Save the names and end the kernel until the next call',
});
export const ResetSession = endpoint('post /v1/sessions/{id}/reset', stateTag, mayUse, {
  audit: 'session.reset',
  summary: 'Clear every name; what runs is ended',
});
export const RestartSession = endpoint('post /v1/sessions/{id}/restart', stateTag, mayUse, {
  audit: 'session.restart',
  summary: 'End the sandbox and start another; the workspace stays',
});
