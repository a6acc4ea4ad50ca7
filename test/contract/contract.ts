/** What every executor must do, whatever stands between host and interpreter. A new executor is done when this passes on it. */

import { describe } from 'vitest';
import type { Open } from '../support/session.ts';
import { executionContract } from './execution.ts';
import { valuesContract } from './values.ts';

export function executorContract(name: string, open: Open): void {
  describe(`${name} executor`, () => {
    executionContract(open);
    valuesContract(open);
  });
}
