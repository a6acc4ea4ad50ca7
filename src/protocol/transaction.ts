/** What becomes of the changes that a cell makes to its kernel. */

import { z } from 'zod';

/**
 * `commit_always` keeps them. `commit_on_success` and `rollback_on_failure`, two names of one behaviour, take them back
 * where the code fails. `rollback_always` takes them back. `explicit` waits for `commit()` or `rollback()`.
 */
export const TransactionPolicy = z.enum([
  'commit_always',
  'commit_on_success',
  'rollback_on_failure',
  'rollback_always',
  'explicit',
]);
export type TransactionPolicy = z.infer<typeof TransactionPolicy>;
