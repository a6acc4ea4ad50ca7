/** What every part of a Redis storage works with. */

import type { Clock } from '../contract.ts';
import type { Keys } from './keys.ts';
import type { Link } from './link.ts';

export interface Place {
  readonly link: Link;
  readonly keys: Keys;
  readonly clock: Clock;
}
