/** Two sets of times side by side. */

import type { Times } from './result.ts';
import { median, percentile, rounded } from './statistics.ts';

export function compareTimes(cella: readonly number[], ipykernel: readonly number[]): Times {
  return {
    cellaMs: rounded(median(cella)),
    ipykernelMs: rounded(median(ipykernel)),
    ratio: rounded(median(ipykernel) / median(cella)),
    cellaP95Ms: rounded(percentile(cella, 95)),
    ipykernelP95Ms: rounded(percentile(ipykernel, 95)),
  };
}
