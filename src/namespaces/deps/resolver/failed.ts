/** Why packages could not be had: thrown in here, and told to whoever asked as a reason. */

import type { Failure } from '../words.ts';

export class Failed extends Error implements Failure {
  readonly reason: string;
  readonly scope: Failure['scope'];

  /** `all`: it would be the same for any requirement. */
  constructor(reason: string, scope: Failure['scope'] = 'some') {
    super(reason);
    this.reason = reason;
    this.scope = scope;
  }
}
