/** State that survives: what every executor must do with the names of its kernels. */

import { describe } from 'vitest';
import { everything } from '../support/depth.ts';
import type { Open } from '../support/session.ts';
import { durableContract } from './state-durable.ts';
import { forkContract } from './state-forks.ts';
import { hibernationContract } from './state-hibernation.ts';
import { liveCheckpointContract, undoContract } from './state-live.ts';
import { agentKeyContract } from './state-locks.ts';
import { recoveryContract } from './state-recovery.ts';
import { savesContract } from './state-saves.ts';
import { walkContract } from './state-walk.ts';
import { transactionContract } from './transactions.ts';

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
