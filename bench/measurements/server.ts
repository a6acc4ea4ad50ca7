/** The smallest cell through the server, compared with the library in the same run and with Jupyter's server. */

import type { Plan } from '../plan.ts';
import { atRest } from '../processes.ts';
import type { Progress } from '../progress.ts';
import type { ServerTimes } from '../result.ts';
import { median, percentile, repeated, rounded } from '../statistics.ts';
import { runOk, type Subjects } from '../subjects.ts';

const CODE = 'x=1';

export async function measureServer(
  subjects: Subjects,
  plan: Plan['server'],
  progress: Progress,
): Promise<ServerTimes> {
  // As `cella serve` opens them, without preloading.
  const library = await subjects.cella({ preload: [] });
  const [client, jupyter] = [await subjects.cellaServer(), await subjects.jupyterServer()];
  const asks = {
    library: () => runOk(library, CODE),
    http: () => client.overHttp(CODE),
    webSocket: () => client.overWebSocket(CODE),
    jupyter: () => jupyter.run(CODE),
  };
  const names = ['library', 'http', 'webSocket', 'jupyter'] as const;
  for (const name of names) {
    await repeated(name === 'jupyter' ? plan.jupyterWarmUpCells : plan.warmUpCells, asks[name]);
  }
  await atRest();
  const samples: Record<(typeof names)[number], number[]> = { library: [], http: [], webSocket: [], jupyter: [] };
  for (let round = 0; round < plan.rounds; round++) {
    for (const name of names) {
      const cells = name === 'jupyter' ? plan.jupyterCellsPerRound : plan.cellsPerRound;
      samples[name].push(...(await repeated(cells, asks[name])));
    }
    progress.tick(round + 1, plan.rounds);
  }
  await subjects.end(library, client, jupyter);
  const p50 = (name: keyof typeof samples) => rounded(median(samples[name]));
  const p95 = (name: keyof typeof samples) => rounded(percentile(samples[name], 95));
  return {
    libraryMs: p50('library'),
    httpMs: p50('http'),
    httpP95Ms: p95('http'),
    overheadMs: rounded(median(samples.http) - median(samples.library)),
    webSocketMs: p50('webSocket'),
    webSocketP95Ms: p95('webSocket'),
    jupyterMs: p50('jupyter'),
    jupyterP95Ms: p95('jupyter'),
    ratio: rounded(median(samples.jupyter) / median(samples.http)),
  };
}
