/** What all calls of models through this server have come to since it began, for whoever watches it. */

import type { TokenUsage } from '../../protocol/turn.ts';

export interface ModelTotals {
  readonly calls: number;
  readonly costUsd: number;
  /** By kind. */
  readonly tokens: Readonly<Record<'input' | 'output' | 'cache_read' | 'cache_write', number>>;
}

export class ModelMetrics {
  #numbers: ModelTotals = { calls: 0, costUsd: 0, tokens: { input: 0, output: 0, cache_read: 0, cache_write: 0 } };

  get numbers(): ModelTotals {
    return this.#numbers;
  }

  add({ input, output, cacheRead, cacheWrite, costUsd = 0 }: TokenUsage): void {
    const { calls, costUsd: before, tokens } = this.#numbers;
    this.#numbers = {
      calls: calls + 1,
      costUsd: before + costUsd,
      tokens: {
        input: tokens.input + input,
        output: tokens.output + output,
        cache_read: tokens.cache_read + cacheRead,
        cache_write: tokens.cache_write + cacheWrite,
      },
    };
  }
}
