/** The runner of coding agents: how long it takes to be there, and what a call over its stdin and stdout costs. */

import type { Plan } from '../plan.ts';
import type { Progress } from '../progress.ts';
import type { Agents } from '../result.ts';
import { RunnerProcess, startNode } from '../runner-process.ts';
import { median, percentile, rounded } from '../statistics.ts';

/** Calls that are under way at the same time. */
const AT_ONCE = 64;

export async function measureAgents(plan: Plan['agents'], progress: Progress): Promise<Agents> {
  const starts: number[] = [];
  const nodes: number[] = [];
  for (let start = 0; start < plan.starts; start++) {
    nodes.push(await startNode());
    await using runner = await RunnerProcess.start();
    starts.push(runner.startMs);
    progress.tick(start + 1, plan.starts);
  }
  await using runner = await RunnerProcess.start();
  const { memory_bytes } = await runner.call();
  for (let call = 0; call < plan.warmUpCalls; call++) await runner.call();
  const calls: number[] = [];
  for (let call = 0; call < plan.calls; call++) {
    const began = performance.now();
    await runner.call();
    calls.push(performance.now() - began);
  }
  const began = performance.now();
  const line = async () => {
    for (let call = 0; call < plan.calls / AT_ONCE; call++) await runner.call();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, line));
  const seconds = (performance.now() - began) / 1000;
  return {
    startMs: rounded(median(starts)),
    startP95Ms: rounded(percentile(starts, 95)),
    nodeMs: rounded(median(nodes)),
    memoryMb: rounded(memory_bytes / 2 ** 20),
    callMs: rounded(median(calls)),
    callP95Ms: rounded(percentile(calls, 95)),
    callsPerS: rounded((Math.ceil(plan.calls / AT_ONCE) * AT_ONCE) / seconds),
  };
}
