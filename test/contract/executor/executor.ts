/** What every executor must do, whatever stands between host and interpreter. A new executor is done when this passes on it. */

import { describe } from 'vitest';
import type { Open } from '../../support/kernels/session.ts';
import { capabilitiesContract } from './capabilities.ts';
import { executionContract } from './execution.ts';
import { inputContract } from './input.ts';
import { outputContract } from './output.ts';
import { introspectionContract, lifeContract, separationContract } from './session-lifecycle.ts';
import { deathContract, interruptContract, queueContract, timeoutContract } from './stopping.ts';
import { valuesContract } from './values.ts';

/** `lend`: gives kernels that another test may have used before, where starting one takes long. `many`: sessions at once. */
export function executorContract(name: string, open: Open, lend = open, many?: number): void {
  describe(`${name} executor`, () => {
    valuesContract(open, lend);
    plainContract(open, lend, many);
  });
}

/** What needs no package, and so can be asked of any image that has a Python and a shell. */
export function plainContract(open: Open, lend = open, many?: number): void {
  capabilitiesContract(open, lend);
  executionContract(open, lend);
  outputContract(open, lend);
  inputContract(open, lend);
  queueContract(open, lend);
  interruptContract(open, lend);
  timeoutContract(open, lend);
  deathContract(open, lend);
  lifeContract(open, lend);
  introspectionContract(open, lend);
  separationContract(open, many);
}
