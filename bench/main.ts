/** `cella bench`: measures Cella side by side with its peers. Works in a checkout, because Node runs these files directly. */

import { availableParallelism, cpus, release, totalmem } from 'node:os';
import { CellaError } from '../src/protocol/errors.ts';
import { measureAgents } from './measurements/agents.ts';
import { measureExecutors } from './measurements/executors.ts';
import { measureGateway } from './measurements/gateway.ts';
import { measureKernels } from './measurements/kernel.ts';
import { measureNeighbours } from './measurements/neighbours.ts';
import { measureServer } from './measurements/server.ts';
import { jupyterServerVersion } from './peers/jupyter-server.ts';
import type { Peer } from './peers/setup.ts';
import { full, type Plan, quick } from './plan.ts';
import { Progress } from './progress.ts';
import { toMarkdown, toTable } from './report.ts';
import { type BenchResult, type Machine, type Part, parts } from './result.ts';
import { rounded } from './statistics.ts';
import { Subjects } from './subjects.ts';

export interface BenchOptions {
  readonly json: boolean;
  /** Prints the table for docs/performance.md. */
  readonly markdown?: boolean;
  /** Few rounds and small sizes: checks that every measurement works; the numbers mean nothing. */
  readonly quick?: boolean;
  /** One part instead of all but the last: `kernels`, `executors`, `server`, `gateway`, `agents` or `neighbours`. */
  readonly only?: string;
}

type Signal = 'SIGHUP' | 'SIGINT' | 'SIGTERM';

const EXIT_CODES: Readonly<Record<Signal, number>> = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };
const SIGNALS: readonly Signal[] = ['SIGHUP', 'SIGINT', 'SIGTERM'];

/** Resolves to the exit code. `out` gets the report, `progress` one line at a time during the run. */
export async function bench(
  options: BenchOptions,
  out: (text: string) => void,
  progress: (line: string) => void,
): Promise<number> {
  const stopped = Promise.withResolvers<Signal>();
  const onSignal = (signal: Signal) => {
    stopped.resolve(signal);
    // A second signal does not wait for cleanup: the rest is ended at exit.
    process.once(signal, () => process.exit(EXIT_CODES[signal]));
  };
  for (const signal of SIGNALS) process.once(signal, onSignal);
  try {
    const wanted = wantedParts(options.only);
    await using subjects = await Subjects.prepare();
    const comparison = measureParts(subjects, options.quick ? quick : full, new Progress(progress), wanted);
    // After a stop, running measurements fail because their subjects are closed.
    comparison.catch(() => {});
    const outcome = await Promise.race([comparison, stopped.promise]);
    if (typeof outcome === 'string') return EXIT_CODES[outcome];
    out(render(outcome, options));
    return 0;
  } catch (error) {
    // Printed here, because the program that started this may have another copy of the class.
    if (!(error instanceof CellaError)) throw error;
    const { code, message, advice } = error;
    if (options.json) out(`${JSON.stringify({ type: 'error', code, message, advice })}\n`);
    else progress(`cella: ${message}\n${advice}`);
    return 1;
  } finally {
    for (const signal of SIGNALS) process.off(signal, onSignal);
  }
}

function wantedParts(only: string | undefined): readonly Part[] {
  // Takes half an hour, so it runs only on request.
  if (only === undefined) return parts.filter((one) => one !== 'neighbours');
  const part = parts.find((one) => one === only);
  if (part) return [part];
  const message = `The benchmark has no part ${JSON.stringify(only)}; it has ${parts.join(', ')}.`;
  throw new CellaError('INVALID_OPTIONS', message);
}

function render(result: BenchResult, options: BenchOptions): string {
  const { kernels, ...rest } = result;
  if (options.json) return `${JSON.stringify({ ...kernels, ...rest }, null, 2)}\n`;
  return options.markdown ? toMarkdown(result) : toTable(result);
}

/** All parts of the comparison, one after the other, or one of them alone. */
export async function measureParts(
  subjects: Subjects,
  plan: Plan,
  progress: Progress,
  wanted: readonly Part[],
): Promise<BenchResult> {
  const wants = (part: Part) => wanted.includes(part);
  // Checked before anything is measured, so that missing parts are reported at once.
  const jupyter = wants('server') ? await jupyterServerVersion(subjects.peer.python) : undefined;
  const kernels = wants('kernels') ? await measureKernels(subjects, plan, progress) : undefined;
  const executors = wants('executors') ? await measureExecutors(subjects, plan.executors, progress) : undefined;
  if (wants('server')) progress.step('the server');
  const server = wants('server') ? await measureServer(subjects, plan.server, progress) : undefined;
  if (wants('gateway')) progress.step('the model gateway');
  const gateway = wants('gateway') ? await measureGateway(plan.gateway, progress) : undefined;
  if (wants('agents')) progress.step('the runner of agents');
  const agents = wants('agents') ? await measureAgents(plan.agents, progress) : undefined;
  if (wants('neighbours')) progress.step('a user beside one that does its worst');
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

/** `jupyterServer` is set if it was measured. */
export function describeMachine(peer: Peer, jupyterServer?: string): Machine {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryGb: rounded(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.versions.node,
    python: peer.pythonVersion,
    ipykernel: peer.ipykernelVersion,
    ...(jupyterServer === undefined ? {} : { jupyterServer }),
  };
}
