/** The programs that run in an environment: each ends with its signal, and all with the environment. */

import type { Execution } from './contract.ts';

export class Executions {
  readonly #running = new Set<Execution>();

  add(execution: Execution, signal: AbortSignal | undefined): Execution {
    const stop = () => execution.kill();
    const over = () => {
      this.#running.delete(execution);
      signal?.removeEventListener('abort', stop);
    };
    this.#running.add(execution);
    execution.exited.then(over, over);
    signal?.addEventListener('abort', stop, { once: true });
    // It may have been aborted while the program began.
    if (signal?.aborted) stop();
    return execution;
  }

  /** Asks all of them to end, and waits until they have. */
  async end(): Promise<void> {
    const all = [...this.#running];
    for (const execution of all) execution.kill();
    await Promise.allSettled(all.map(({ exited }) => exited));
  }
}
