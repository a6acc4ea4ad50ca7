/** Where an agent's kernels live: one enclosure, which forks of a kernel may share, and the twins in it. */

import { randomInt } from 'node:crypto';
import type { Enclosure, LaunchOptions } from '../executors/contract.ts';
import type { KernelLink } from '../kernel/link.ts';

/** Makes the first enclosure of an agent, or another after the last one ended. */
export interface Place {
  /** `fresh`: the agent had no folder before, and so nothing else. */
  open(): Promise<{ enclosure: Enclosure; first?: Promise<KernelLink>; fresh: boolean }>;
  /** What a kernel is to begin with. */
  begin(): LaunchOptions;
}

export class Quarters {
  readonly enclosure: Enclosure;
  readonly #gone = new Set<(twin: number, outOfMemory: boolean) => void>();
  #tenants = 0;

  constructor(enclosure: Enclosure) {
    this.enclosure = enclosure;
    enclosure.onGone = (twin, outOfMemory) => {
      for (const listener of this.#gone) listener(twin, outOfMemory);
    };
  }

  /** Whoever moves in must move out: with the last one the enclosure ends. */
  moveIn(onGone: (twin: number, outOfMemory: boolean) => void): () => Promise<void> {
    this.#tenants++;
    this.#gone.add(onGone);
    let here = true;
    return async () => {
      if (!here) return;
      here = false;
      this.#gone.delete(onGone);
      if (--this.#tenants === 0) await this.enclosure.close();
    };
  }

  /** Whether only one kernel lives here. */
  get unshared(): boolean {
    return this.#tenants <= 1;
  }

  /** A number that the code cannot foretell: it could put a process of its own in the place of the twin. */
  nextTwin(): number {
    return randomInt(1, 2 ** 31);
  }

  launch(options: LaunchOptions): Promise<KernelLink> {
    return this.enclosure.launch(options);
  }
}
