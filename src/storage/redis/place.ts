/** What every part of a Redis storage works with. */

import type { Clock } from '../contract.ts';
import type { Address } from './address.ts';
import type { Keys } from './keys.ts';
import type { Argument, Reply } from './reply.ts';
import type { Script } from './script.ts';

/** A way to the server: the connection itself, or one that lets writes through only for whoever has a lock. */
export interface Line {
  readonly address: Address;
  send(...args: Argument[]): Promise<Reply>;
  run(script: Script, keys: readonly string[], args: readonly Argument[]): Promise<Reply>;
}

export interface Place {
  readonly link: Line;
  readonly keys: Keys;
  readonly clock: Clock;
}
