/** Transactions: what becomes of the changes of a cell, however it ends, and that a rollback takes back everything. */

import type { Open } from '../support/session.ts';
import { afterTransactionContract } from './transactions-after.ts';
import { explicitContract } from './transactions-explicit.ts';
import { failuresContract } from './transactions-failures.ts';
import { policiesContract } from './transactions-policies.ts';
import { rollbackContract } from './transactions-rollback.ts';
import { threadsContract } from './transactions-threads.ts';

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
