/** The first byte of a streamed answer through the model gateway, beside the same provider asked directly. */

import { GatewayPlace } from '../gateway-place.ts';
import type { Plan } from '../plan.ts';
import type { Progress } from '../progress.ts';
import type { Gateway } from '../result.ts';
import { median, percentile, rounded } from '../statistics.ts';

export async function measureGateway(plan: Plan['gateway'], progress: Progress): Promise<Gateway> {
  await using place = await GatewayPlace.open();
  const direct: number[] = [];
  const through: number[] = [];
  await repeated(plan.warmUpCalls, () => place.direct());
  await repeated(plan.warmUpCalls, () => place.gateway());
  for (let round = 0; round < plan.rounds; round++) {
    direct.push(...(await repeated(plan.callsPerRound, () => place.direct())));
    through.push(...(await repeated(plan.callsPerRound, () => place.gateway())));
    progress.tick(round + 1, plan.rounds);
  }
  return {
    directMs: rounded(median(direct)),
    gatewayMs: rounded(median(through)),
    gatewayP95Ms: rounded(percentile(through, 95)),
    addedMs: rounded(median(through) - median(direct)),
  };
}

async function repeated(times: number, ask: () => Promise<number>): Promise<number[]> {
  const samples: number[] = [];
  for (let i = 0; i < times; i++) samples.push(await ask());
  return samples;
}
