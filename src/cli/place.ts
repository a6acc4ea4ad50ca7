/** Where the code of a session runs, in words: as they stand after what is run there. */

import type { SessionApi } from '../session/api.ts';
import type { OpenOptions } from './context.ts';

export function placeOf(
  { executor }: Pick<SessionApi, 'executor'>,
  { sandbox }: Pick<OpenOptions, 'sandbox'>,
  sandboxed = 'in the sandbox',
): string {
  if (executor === 'container') return 'in a container';
  if (executor === 'in-process') return 'in WebAssembly, with no isolation';
  return sandbox === 'off' ? 'without a sandbox' : sandboxed;
}
