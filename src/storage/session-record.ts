/** Session records: what storage keeps about a session while no process holds its agent key. */

import { z } from 'zod';
import { executionStatuses } from '../protocol/enums.ts';

const milliseconds = z.int().min(0);

const saveFields = z.object({ id: z.string().min(1), at: milliseconds });
const cellFields = z.object({ execution: z.int().min(0), code: z.string(), status: z.enum(executionStatuses) });

/** Fields that this version does not know are kept, here and below, so that a newer one finds them again. */
const lastSave: z.ZodType<z.infer<typeof saveFields>> = saveFields.loose();
const cell: z.ZodType<z.infer<typeof cellFields>> = cellFields.loose();

const fields = z.object({
  agentKey: z.string(),
  /** Milliseconds since 1970, as all times here. */
  createdAt: milliseconds,
  updatedAt: milliseconds,
  lastUsedAt: milliseconds,
  /** How many executions the session has had. */
  executions: z.int().min(0),
  /** `live`: a process has, or had when it was killed, a kernel for it. `hibernated`: saved and ended. */
  state: z.enum(['live', 'hibernated']),
  lastSave: lastSave.optional(),
  /** The process id of the kernel, on the machine that holds the session. */
  pid: z.int().min(1).optional(),
  memoryBytes: z.int().min(0).optional(),
  /** The working folder of the last save, on the host. */
  cwd: z.string().optional(),
  /** The agent key whose workspace it shares. */
  workspaceOf: z.string().optional(),
  /** The newest cells, oldest first; see `boundHistory`. */
  history: z.array(cell),
});

export type SessionRecord = z.infer<typeof fields>;
export const SessionRecord: z.ZodType<SessionRecord> = fields.loose();

export const HISTORY_CELLS = 1000;
export const HISTORY_CHARACTERS = 256 * 1024;

/** The newest cells that fit both limits; the newest one stays however long it is. */
export function boundHistory<T extends { readonly code: string }>(history: readonly T[]): T[] {
  let characters = 0;
  let first = history.length;
  while (first > 0 && history.length - first < HISTORY_CELLS) {
    characters += history[first - 1]?.code.length ?? 0;
    if (characters > HISTORY_CHARACTERS && first < history.length) break;
    first -= 1;
  }
  return history.slice(first);
}
