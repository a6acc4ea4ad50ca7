/** Where the code of a session runs, in words: as they stand after what is run there. */

import type { SessionApi } from '../session/api.ts';

export function placeOf(
  { executor, sandboxed }: Pick<SessionApi, 'executor' | 'sandboxed'>,
  inSandbox = 'in the sandbox',
): string {
  if (executor === 'container') return 'in a container';
  if (executor === 'in-process') return 'in WebAssembly, with no isolation';
  return sandboxed ? inSandbox : 'without a sandbox';
}
