/** Transactions: what becomes of the changes of a cell, however it ends, and that a rollback takes back everything. */

import type { Open } from '../../support/kernels/session.ts';
import { afterTransactionContract } from './after.ts';
import { explicitContract } from './explicit.ts';
import { failuresContract } from './failures.ts';
import { policiesContract } from './policies.ts';
import { rollbackContract } from './rollback.ts';
import { threadsContract } from './threads.ts';

/** `short`: what differs from executor to executor. */
export function transactionContract(open: Open, short = false): void {
  policiesContract(open);
  rollbackContract(open);
  explicitContract(open);
  if (short) return;
  failuresContract(open);
  afterTransactionContract(open);
  threadsContract(open);
}
