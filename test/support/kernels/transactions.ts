/** What suites about transactions look at. */

import { expect } from 'vitest';
import type { ExecuteOptions, ResultEvent, Session } from '../../../src/index.ts';

export type Policy = NonNullable<ExecuteOptions['transaction']>;

/** Whether `x` is what it was, and `y` has come. */
export const LOOK = '[x, "y" in dir()]';

/** Without a copy of all memory, what a transaction could go back to ends with its kernel: the last save comes back. */
export async function diedWithItsPast(session: Session, result: ResultEvent): Promise<boolean> {
  if (session.capabilities.trueRollback || !result.death) return false;
  expect(result.transaction).toBeUndefined();
  const next = await session.run('"y" in dir()');
  expect(next).toMatchObject({ status: 'ok', value: false, recovered: { cause: { code: result.death.code } } });
  return true;
}
