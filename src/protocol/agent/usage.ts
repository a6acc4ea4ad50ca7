/** What sessions and users have used of models, as the gateway has counted it. */

import { z } from 'zod';

const count = z.int().min(0);

/** Tokens from a cache and those written to one are not among `input`. */
const counted = {
  calls: count,
  input: count,
  output: count,
  cacheRead: count,
  cacheWrite: count,
  /** Of the calls whose model has a price. */
  costUsd: z.number().min(0),
  /** Calls whose model has none. */
  unpriced: count,
  /** Calls that ended before the provider told what they had used. */
  estimated: count,
};

export const ModelUsage = z.object({ ...counted, models: z.record(z.string(), z.object(counted)) });
export type ModelUsage = z.infer<typeof ModelUsage>;
export type UsageCounts = Omit<ModelUsage, 'models'>;

/** `day` is one in UTC: `2026-11-16`. */
export const DayUsage = ModelUsage.extend({ day: z.string() });
export type DayUsage = z.infer<typeof DayUsage>;
