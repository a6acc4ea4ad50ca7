/** Prints a result as a table: one row per measure, with its target. */

import type {
  Agents,
  BenchResult,
  ExecutorNumbers,
  Executors,
  Gateway,
  Kernels,
  Milliseconds,
  Neighbour,
  Rollback,
  ServerTimes,
  Throughput,
  Times,
} from './result.ts';

interface Row {
  readonly measure: string;
  readonly cella: string;
  readonly ipykernel: string;
  readonly ratio: string;
  readonly target: string;
  /** Undefined if the measure has no target. */
  readonly met: boolean | undefined;
}

const HEADINGS = ['measure', 'cella', 'ipykernel', 'ratio', 'target', 'met'] as const;

export function toTable(result: BenchResult): string {
  const lines = [[...HEADINGS], ...rows(result).map(cells)];
  const widths = HEADINGS.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const aligned = lines.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  return toText(aligned, result);
}

export function toMarkdown(result: BenchResult): string {
  const lines = [[...HEADINGS], HEADINGS.map(() => '---'), ...rows(result).map(cells)];
  const own = lines.map((line) => `| ${line.join(' | ')} |`);
  return toText(own, result);
}

function toText(table: readonly string[], result: BenchResult): string {
  const executors = result.executors ? [...executorLines(result.executors), ''] : [];
  const measured = rows(result).length > 0 ? [...table, ''] : [];
  return `${[...measured, ...executors, describe(result)].join('\n')}\n`;
}

function rows({ kernels, server, gateway, agents, neighbours = [] }: BenchResult): Row[] {
  return [
    ...(kernels ? kernelRows(kernels) : []),
    ...(server ? serverRows(server) : []),
    ...(gateway ? [gatewayRow(gateway)] : []),
    ...(agents ? agentRows(agents) : []),
    ...neighbours.map(neighbourRow),
  ];
}

function neighbourRow({ noise, p50Ms, p99Ms, ratio }: Neighbour, at: number): Row {
  return {
    measure: `a small cell, ${at === 0 ? noise : `while a neighbour ${noise}`} (p50 / p99)`,
    cella: `${p50Ms} / ${p99Ms} ms`,
    ipykernel: '',
    ratio: `${ratio}x`,
    target: at === 0 ? '' : 'p99 <= 5x the quiet one',
    met: at === 0 ? undefined : ratio <= 5,
  };
}

function gatewayRow({ directMs, gatewayMs, gatewayP95Ms, addedMs }: Gateway): Row {
  return {
    measure: 'model gateway: first byte of a stream (median / p95)',
    cella: `${gatewayMs} / ${gatewayP95Ms} ms, ${addedMs} ms more than ${directMs} ms`,
    ipykernel: '',
    ratio: '',
    target: '< 5 ms more',
    met: addedMs < 5,
  };
}

function agentRows({ startMs, startP95Ms, nodeMs, callMs, callP95Ms, callsPerS }: Agents): Row[] {
  return [
    {
      measure: 'runner of agents: until it answers (median / p95)',
      cella: `${startMs} / ${startP95Ms} ms, Node alone ${nodeMs} ms`,
      ipykernel: '',
      ratio: '',
      target: '< 300 ms',
      met: startMs < 300,
    },
    {
      measure: 'runner of agents: one call (median / p95)',
      cella: `${callMs} / ${callP95Ms} ms, ${callsPerS} a second 64 at a time`,
      ipykernel: '',
      ratio: '',
      target: '',
      met: undefined,
    },
  ];
}

function serverRows({ libraryMs, overheadMs, ratio, ...server }: ServerTimes): Row[] {
  return [
    {
      measure: 'server: x=1 over HTTP, beyond the library (median)',
      cella: `${overheadMs} ms more than ${libraryMs} ms`,
      ipykernel: '',
      ratio: '',
      target: '<= 1.5 ms',
      met: overheadMs <= 1.5,
    },
    {
      measure: "server: x=1 over HTTP, against Jupyter's server (median / p95)",
      cella: `${server.httpMs} / ${server.httpP95Ms} ms`,
      ipykernel: `${server.jupyterMs} / ${server.jupyterP95Ms} ms`,
      ...ratioAtLeast(ratio, 10),
    },
    {
      measure: 'server: x=1 over WebSocket (median / p95)',
      cella: `${server.webSocketMs} / ${server.webSocketP95Ms} ms`,
      ipykernel: '',
      ratio: '',
      target: '',
      met: undefined,
    },
  ];
}

function kernelRows(result: Kernels): Row[] {
  const { start, spare, roundTrip, memory, bigPrint, smallPrints, interrupt, density, save, pool } = result;
  return [
    timesRow('start of a kernel, no spare (median / p95)', start, 50),
    {
      measure: 'first result from a spare (median / p95)',
      cella: `${spare.firstResultMs} / ${spare.p95Ms} ms`,
      ipykernel: '',
      ratio: '',
      target: '< 1.5 ms',
      met: spare.firstResultMs < 1.5,
    },
    {
      measure: 'the same, after the host was at rest (median / p95)',
      cella: `${spare.afterRestMs} / ${spare.afterRestP95Ms} ms`,
      ipykernel: '',
      ratio: '',
      target: '< 1.5 ms',
      met: spare.afterRestMs < 1.5,
    },
    timesRow('round trip of x=1 (median / p95)', roundTrip, 30),
    {
      measure: 'private memory of a kernel',
      cella: `${memory.cellaMb} MB`,
      ipykernel: `${memory.ipykernelMb} MB`,
      ...ratioAtLeast(memory.ratio, 15),
    },
    throughputRow('one big print', bigPrint, 4),
    throughputRow('many small prints', smallPrints, 3.5),
    {
      measure: 'interrupt (p50 / p99)',
      cella: `${interrupt.p50Ms} / ${interrupt.p99Ms} ms`,
      ipykernel: '',
      ratio: '',
      target: 'p99 < 50 ms',
      met: interrupt.p99Ms < 50,
    },
    millisecondsRow('first byte of a print (median / p95)', result.firstByte, 10),
    {
      measure: `${density.kernels} kernels opened at once`,
      cella: `${density.totalMb} MB in all, ${density.lost} lost`,
      ipykernel: '',
      ratio: '',
      target: '< 1024 MB, none lost',
      met: density.totalMb < 1024 && density.lost === 0,
    },
    rollbackRow(result.rollback, 6),
    rollbackRow(result.rollback1gb, 6),
    millisecondsRow('checkpoint of an empty kernel (median / p95)', result.checkpoint, 10),
    millisecondsRow('fork of an empty kernel (median / p95)', result.fork, 15),
    millisecondsRow('durable save of 100 names (median / p95)', result.save, 50),
    millisecondsRow('wait of a cell for a save (median / p95)', { ms: save.waitMs, p95Ms: save.waitP95Ms }, 10),
    millisecondsRow('resuming with 10 MB (median / p95)', result.resume, 150),
    {
      measure: `${pool.keys} agents on ${pool.kernels} kernels, twice`,
      cella: `${pool.found} found their names, ${pool.mostMb} MB at most, ${pool.seconds} s`,
      ipykernel: '',
      ratio: '',
      target: 'every one',
      met: pool.found === pool.keys,
    },
  ];
}

function rollbackRow({ megabytes, cellaMs, cloudpickleMs, ratio }: Rollback, target: number): Row {
  return {
    measure: `rollback with ${megabytes} MB of numpy, against cloudpickle`,
    cella: `${cellaMs} ms`,
    ipykernel: `${cloudpickleMs} ms`,
    ...ratioAtLeast(ratio, target),
  };
}

function millisecondsRow(measure: string, { ms, p95Ms }: Milliseconds, target: number): Row {
  return {
    measure,
    cella: `${ms} / ${p95Ms} ms`,
    ipykernel: '',
    ratio: '',
    target: `< ${target} ms`,
    met: ms < target,
  };
}

function timesRow(measure: string, times: Times, target: number): Row {
  return {
    measure,
    cella: `${times.cellaMs} / ${times.cellaP95Ms} ms`,
    ipykernel: `${times.ipykernelMs} / ${times.ipykernelP95Ms} ms`,
    ...ratioAtLeast(times.ratio, target),
  };
}

function throughputRow(measure: string, { cellaMbPerS, ipykernelMbPerS, ratio }: Throughput, target: number): Row {
  return {
    measure,
    cella: `${cellaMbPerS} MB/s`,
    ipykernel: `${ipykernelMbPerS} MB/s`,
    ...ratioAtLeast(ratio, target),
  };
}

function ratioAtLeast(ratio: number, target: number): Pick<Row, 'ratio' | 'target' | 'met'> {
  return { ratio: `${ratio}x`, target: `>= ${target}x`, met: ratio >= target };
}

function cells(row: Row): string[] {
  const met = row.met === undefined ? '' : row.met ? 'yes' : 'no';
  return HEADINGS.map((heading) => (heading === 'met' ? met : row[heading]));
}

function describe({ machine, kernels }: BenchResult): string {
  const jupyter = machine.jupyterServer === undefined ? '' : `; jupyter-server ${machine.jupyterServer}`;
  return [
    ...(kernels ? [`The template started once in ${kernels.templateMs} ms and takes ${kernels.templateMb} MB.`] : []),
    `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGb} GB; Linux ${machine.kernel}; Node ${machine.node}; Python ${machine.python}; ipykernel ${machine.ipykernel}${jupyter}.`,
  ].join('\n');
}

/** A table of the executors, in Markdown that is also readable at a terminal. */
export function executorLines({ subprocess, container, inProcess }: Executors): string[] {
  const row = (name: string, show: (numbers: ExecutorNumbers) => string): string[] => [
    name,
    ...[subprocess, container, inProcess].map(show),
  ];
  const rows = [
    ['executor', 'subprocess', 'container', 'in-process'],
    ['---', '---', '---', '---'],
    row('start, no spare', ({ startMs }) => `${startMs} ms`),
    row('first result from a spare', ({ spareMs }) => `${spareMs} ms`),
    row('round trip of x=1', ({ roundTripMs }) => `${roundTripMs} ms`),
    row('memory of one more kernel', ({ memoryMb }) => `${memoryMb} MB`),
    row('one big print', ({ bigPrintMbPerS }) => `${bigPrintMbPerS} MB/s`),
  ];
  const widths = [0, 1, 2, 3].map((column) => Math.max(...rows.map((cells) => cells[column]?.length ?? 0)));
  const lines = rows.map((cells) => `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |`);
  return [...lines, '', ...targets({ subprocess, container, inProcess })];
}

function targets({ container, inProcess }: Executors): string[] {
  const met = (yes: boolean) => (yes ? 'met' : 'not met');
  const { dockerRunMs, startRatio, roundTripRatio, spareMs } = container;
  return [
    `\`docker run\` of the same image takes ${dockerRunMs} ms: a container starts in ${startRatio} times that (at most 1.3: ${met(startRatio <= 1.3)}).`,
    `From a spare it answers after ${spareMs} ms (under 20: ${met(spareMs < 20)}), and a cell takes ${roundTripRatio} times as long as in subprocess (at most 2: ${met(roundTripRatio <= 2)}).`,
    `Pyodide without a snapshot takes ${inProcess.coldMs} ms: with it, ${inProcess.startRatio} of that (at most 0.2: ${met(inProcess.startRatio <= 0.2)}).`,
  ];
}
