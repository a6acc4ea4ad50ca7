/** What every environment does the same: files, programs, their end, and being found again. */

import { afterAll, beforeAll } from 'vitest';
import { type Opened, openEnvironment, type Where } from '../../support/kernels/environments.ts';
import { environmentExecContract } from './exec.ts';
import { environmentFilesContract } from './files.ts';
import { environmentLifeContract } from './lifecycle.ts';
import { environmentProfilesContract } from './profiles.ts';

export function environmentContract(find: () => Promise<Where>): void {
  let opened: Opened;
  beforeAll(async () => {
    const where = await find();
    opened = { where, environment: await openEnvironment(where) };
  }, 300_000);
  afterAll(() => opened?.environment.terminate());

  environmentFilesContract(() => opened.environment);
  environmentProfilesContract(() => opened);
  environmentExecContract(() => opened.environment);
  environmentLifeContract(() => opened);
}
