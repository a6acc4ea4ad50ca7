/** State that survives: what every executor that can fork must do with the names of its kernels. */

import { describe } from 'vitest';
import type { Open } from '../support/session.ts';
import { durableContract } from './state-durable.ts';
import { forkContract } from './state-forks.ts';
import { liveCheckpointContract, undoContract } from './state-live.ts';
import { recoveryContract } from './state-recovery.ts';
import { walkContract } from './state-walk.ts';
import { transactionContract } from './transactions.ts';

export function stateContract(name: string, open: Open, { templated = true } = {}): void {
  describe(`${name} executor`, () => {
    transactionContract(open);
    liveCheckpointContract(open);
    undoContract(open);
    forkContract(open);
    durableContract(open);
    recoveryContract(open, templated);
    walkContract(open);
  });
}
