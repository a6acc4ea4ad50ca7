/** State that survives: what every executor must do with the names of its kernels. */

import { describe } from 'vitest';
import type { Open } from '../../support/kernels/session.ts';
import { everything } from '../../support/run/depth.ts';
import { transactionContract } from '../transactions/transactions.ts';
import { durableContract } from './durable.ts';
import { forkContract } from './forks.ts';
import { hibernationContract } from './hibernation.ts';
import { liveCheckpointContract, undoContract } from './live.ts';
import { agentKeyContract } from './locks.ts';
import { walkContract } from './random-walk.ts';
import { recoveryContract } from './recovery.ts';
import { savesContract } from './saves.ts';

interface Parts {
  /** Its kernels come from templates, which can die too; and so fast that rare moments can be looked for often. */
  readonly templated: boolean;
  /** Leaves out what was shown elsewhere; all of it runs with `npm run test:all`. */
  readonly brief?: boolean;
}

export function stateContract(name: string, open: Open, { templated, brief = !templated }: Parts): void {
  const short = brief && !everything;
  describe(`${name} executor`, () => {
    transactionContract(open, short);
    liveCheckpointContract(open, short);
    durableContract(open, short);
    recoveryContract(open, templated, short);
    forkContract(open, short);
    if (short) return;
    savesContract(open, templated);
    hibernationContract(open);
    agentKeyContract(open);
    undoContract(open);
    walkContract(open, templated);
  });
}
