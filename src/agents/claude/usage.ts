/** Claude's counts of tokens, by model, as the usage of one turn. */

import type { TokenUsage } from '../../protocol/turn.ts';
import type { ModelUsage } from './native.ts';

type Counts = ModelUsage[string];
const fields = ['inputTokens', 'outputTokens', 'cacheReadInputTokens', 'cacheCreationInputTokens', 'costUSD'] as const;
const nothing: Counts = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadInputTokens: 0,
  cacheCreationInputTokens: 0,
  costUSD: 0,
};

/** Undefined where no model has answered. `model` is the one that wrote most. */
export function usageOf(models: ModelUsage): TokenUsage | undefined {
  const used = Object.entries(models).filter(([, counts]) => fields.some((field) => counts[field] > 0));
  if (used.length === 0) return undefined;
  const sum = (field: keyof Counts) => used.reduce((total, [, counts]) => total + counts[field], 0);
  const [model] = used.reduce((most, one) => (one[1].outputTokens > most[1].outputTokens ? one : most));
  return {
    input: Math.round(sum('inputTokens')),
    output: Math.round(sum('outputTokens')),
    cacheRead: Math.round(sum('cacheReadInputTokens')),
    cacheWrite: Math.round(sum('cacheCreationInputTokens')),
    // Sums of tiny amounts differ in their last digits with the order of adding.
    costUsd: Number(sum('costUSD').toFixed(9)),
    model,
  };
}

/** The transcript counts from the beginning of the conversation: a turn is what came on top. */
export function since(before: ModelUsage, after: ModelUsage): ModelUsage {
  const more = (model: string, counts: Counts): Counts => {
    const earlier = before[model] ?? nothing;
    const entries = fields.map((field) => [field, Math.max(0, counts[field] - earlier[field])] as const);
    return { ...nothing, ...Object.fromEntries(entries) };
  };
  return Object.fromEntries(Object.entries(after).map(([model, counts]) => [model, more(model, counts)]));
}
