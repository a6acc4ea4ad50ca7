/** Where packages cannot be kept or installed: the disk is full, or a folder is not this user's. */

import { CellaError } from '../../protocol/errors.ts';

export function noPlace(what: string, cause: unknown): CellaError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new CellaError('STORAGE_FAILED', `${what}: ${why}.`, { cause });
}
