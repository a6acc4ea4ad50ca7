/** All parts of the comparison, one after the other, or one of them alone. */

import { compareExecutors } from './compare-executors.ts';
import { compareKernels } from './compare-kernels.ts';
import { jupyterServerVersion } from './jupyter-server.ts';
import { describeMachine } from './machine.ts';
import { measureAgents } from './measurements/agents.ts';
import { measureGateway } from './measurements/gateway.ts';
import { measureNeighbours } from './measurements/neighbours.ts';
import { measureServer } from './measurements/server.ts';
import type { Plan } from './plan.ts';
import type { Progress } from './progress.ts';
import type { BenchResult, Part } from './result.ts';
import type { Subjects } from './subjects.ts';

export async function compare(
  subjects: Subjects,
  plan: Plan,
  progress: Progress,
  wanted: readonly Part[],
): Promise<BenchResult> {
  const wants = (part: Part) => wanted.includes(part);
  // Before anything is measured: what is missing is told at once.
  const jupyter = wants('server') ? await jupyterServerVersion(subjects.peer.python) : undefined;
  const kernels = wants('kernels') ? await compareKernels(subjects, plan, progress) : undefined;
  const executors = wants('executors') ? await compareExecutors(subjects, plan.executors, progress) : undefined;
  if (wants('server')) progress.step('the server');
  const server = wants('server') ? await measureServer(subjects, plan.server, progress) : undefined;
  if (wants('gateway')) progress.step('the model gateway');
  const gateway = wants('gateway') ? await measureGateway(plan.gateway, progress) : undefined;
  if (wants('agents')) progress.step('the runner of agents');
  const agents = wants('agents') ? await measureAgents(plan.agents, progress) : undefined;
  if (wants('neighbours')) progress.step('a tenant beside one that does its worst');
  const neighbours = wants('neighbours')
    ? await measureNeighbours(subjects.peer.python, plan.neighbours, progress)
    : undefined;
  return {
    ...(kernels ? { kernels } : {}),
    ...(executors ? { executors } : {}),
    ...(server ? { server } : {}),
    ...(gateway ? { gateway } : {}),
    ...(agents ? { agents } : {}),
    ...(neighbours ? { neighbours } : {}),
    machine: describeMachine(subjects.peer, jupyter),
  };
}
