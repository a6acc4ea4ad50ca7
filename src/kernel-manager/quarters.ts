/** Where an agent's kernels live: one enclosure, which forks of a kernel may share, and the twins in it. */

import { randomInt } from 'node:crypto';
import type { KernelHost, StartKernelOptions } from '../environments/kernel-host.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';

/** Makes the first enclosure of an agent, or another after the last one ended. */
export interface Place {
  /** `fresh`: the agent had no folder before, and so nothing else. */
  open(): Promise<{ enclosure: KernelHost; first?: Promise<KernelConnection>; fresh: boolean }>;
  /** What a kernel is to begin with. */
  begin(): StartKernelOptions;
}

/** Who lives there is told what happens there. */
export type Tenant = Pick<KernelHost, 'onGone' | 'onDenied'>;

export class Quarters {
  readonly enclosure: KernelHost;
  readonly #tenants = new Set<Tenant>();

  constructor(enclosure: KernelHost) {
    this.enclosure = enclosure;
    enclosure.onGone = (twin, outOfMemory) => {
      for (const tenant of this.#tenants) tenant.onGone(twin, outOfMemory);
    };
    // Which of them it was, nobody can tell from outside.
    enclosure.onDenied = (attempt) => {
      for (const tenant of this.#tenants) tenant.onDenied(attempt);
    };
  }

  /** Whoever moves in must move out: with the last one the enclosure ends. */
  moveIn(tenant: Tenant): () => Promise<void> {
    this.#tenants.add(tenant);
    return async () => {
      if (this.#tenants.delete(tenant) && this.#tenants.size === 0) await this.enclosure.close();
    };
  }

  /** Whether only one kernel lives here. */
  get unshared(): boolean {
    return this.#tenants.size <= 1;
  }

  /** A number that the code cannot foretell: it could put a process of its own in the place of the twin. */
  nextTwin(): number {
    return randomInt(1, 2 ** 31);
  }

  launch(options: StartKernelOptions): Promise<KernelConnection> {
    return this.enclosure.startKernel(options);
  }
}
