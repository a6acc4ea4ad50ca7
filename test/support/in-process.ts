/** Sessions whose kernels run in this process. The snapshot that they start from is made once for each file of tests. */

import { beforeAll } from 'vitest';
import { type Open, openSession } from './session.ts';

/** On a busy machine the first start takes this long. */
const FIRST_START_MS = 240_000;

export const openInProcess: Open = (options = {}) =>
  openSession({ executor: 'in-process', startTimeoutMs: FIRST_START_MS, ...options });

beforeAll(async () => {
  await (await openInProcess()).close();
}, FIRST_START_MS);
