/** The executors side by side, as a table that both a terminal and a page can show. */

import type { ExecutorNumbers, Executors } from './result.ts';

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
