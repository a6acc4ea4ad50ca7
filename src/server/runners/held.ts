/** An executor that the pool holds for one session: what it was made from, who has prompted it, and since when it is idle. */

import type { Tenant } from './contract.ts';
import type { Worker } from './worker.ts';

export class Held {
  readonly worker: Promise<Worker>;
  readonly tenant: Tenant;
  /** What it was made from: another needs another executor. */
  readonly #shape: string;
  /** Who has prompted it; nobody yet where it was started ahead. */
  #userId: string | undefined;
  /** Set by its first turn: the agent that it ran. */
  agent: string | undefined;
  starting = true;
  users = 0;
  idleSince = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(tenant: Tenant, worker: Promise<Worker>) {
    this.tenant = tenant;
    this.#shape = shapeOf(tenant);
    this.worker = worker;
  }

  /** Why another one is needed; undefined where this one will do. */
  unfitFor(tenant: Tenant, asker: string): string | undefined {
    if (this.#shape !== shapeOf(tenant)) return 'the settings of its session have changed';
    return this.#userId === undefined || this.#userId === asker ? undefined : 'another person has prompted';
  }

  take(userId: string): this {
    this.keep();
    this.users++;
    this.#userId = userId;
    return this;
  }

  /** Calls `late` where it is idle for that long. */
  rest(idleMs: number, late: () => void): void {
    this.#timer = setTimeout(late, idleMs).unref();
  }

  /** Not for being idle, from here on. */
  keep(): void {
    clearTimeout(this.#timer);
  }
}

function shapeOf({ info, workspaceOf }: Tenant): string {
  return JSON.stringify([info.settings, workspaceOf]);
}
