/** State that survives: what every executor must do with the names of its kernels. */

import { describe } from 'vitest';
import type { Open } from '../support/session.ts';
import { durableContract } from './state-durable.ts';
import { forkContract } from './state-forks.ts';
import { liveCheckpointContract, undoContract } from './state-live.ts';
import { recoveryContract } from './state-recovery.ts';
import { walkContract } from './state-walk.ts';
import { transactionContract } from './transactions.ts';

interface Parts {
  /** Its kernels come from templates, which can die too; and so fast that rare moments can be looked for often. */
  readonly templated: boolean;
}

export function stateContract(name: string, open: Open, { templated }: Parts): void {
  describe(`${name} executor`, () => {
    transactionContract(open);
    liveCheckpointContract(open);
    undoContract(open);
    forkContract(open);
    durableContract(open);
    recoveryContract(open, templated);
    walkContract(open, templated);
  });
}
