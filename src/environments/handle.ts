/** The handle of an environment: all that another process needs to find it again, as JSON. */

import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { CellaError } from '../protocol/errors.ts';
import { EnvironmentFolders } from './folders.ts';

export const Handle = z.strictObject({
  kind: z.enum(['local', 'sandbox', 'docker']),
  id: z.string().regex(/^env_[0-9a-f-]{36}$/),
  folders: EnvironmentFolders,
});
export type Handle = z.infer<typeof Handle>;

export const newEnvironmentId = (): string => `env_${randomUUID()}`;

/** `kind`: what it must be of. */
export function readHandle(input: unknown, kinds: readonly Handle['kind'][]): Handle {
  const parsed = Handle.safeParse(input);
  if (parsed.success && kinds.includes(parsed.data.kind)) return parsed.data;
  const why = parsed.success ? `it is one of ${parsed.data.kind}` : z.prettifyError(parsed.error);
  throw new CellaError('INVALID_OPTIONS', `This is no handle of such an environment: ${why}.`);
}

export const RESTARTED = 'the process that had it has ended, and with it all that ran';
export const TERMINATED = 'it was terminated';
