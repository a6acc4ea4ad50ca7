/** The benchmark measures everything it promises, and leaves nothing behind. Its numbers are not judged here. */

import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { expect, it } from 'vitest';
import { bench } from '../../bench/main.ts';
import { jupyterServerVersion } from '../../bench/peers/jupyter-server.ts';
import { findPeer } from '../../bench/peers/setup.ts';
import { descendants } from '../../bench/processes.ts';
import type { BenchResult, Kernels } from '../../bench/result.ts';

const BOUND_MS = 120_000;

const number = expect.any(Number);
const text = expect.any(String);
const times = { cellaMs: number, ipykernelMs: number, ratio: number, cellaP95Ms: number, ipykernelP95Ms: number };
const milliseconds = { ms: number, p95Ms: number };
const executor = { startMs: number, spareMs: number, roundTripMs: number, memoryMb: number, bigPrintMbPerS: number };
const throughput = { cellaMbPerS: number, ipykernelMbPerS: number, ratio: number };

it('measures every promise side by side with ipykernel, as JSON', { timeout: BOUND_MS }, async () => {
  const printed: string[] = [];
  const progress: string[] = [];

  const exitCode = await bench(
    { json: true, quick: true },
    (chunk) => printed.push(chunk),
    (line) => progress.push(line),
  );

  expect(exitCode).toBe(0);
  const result: Kernels & BenchResult = JSON.parse(printed.join(''));
  expect(result).toEqual({
    start: times,
    spare: { firstResultMs: number, p95Ms: number, afterRestMs: number, afterRestP95Ms: number },
    roundTrip: times,
    memory: { cellaMb: number, ipykernelMb: number, ratio: number },
    bigPrint: throughput,
    smallPrints: throughput,
    interrupt: { p50Ms: number, p99Ms: number },
    firstByte: milliseconds,
    density: { kernels: 20, totalMb: number, privateMb: number, lost: 0 },
    rollback: { megabytes: 20, cellaMs: number, cloudpickleMs: number, ratio: number },
    rollback1gb: { megabytes: 100, cellaMs: number, cloudpickleMs: number, ratio: number },
    checkpoint: milliseconds,
    fork: milliseconds,
    save: { ...milliseconds, waitMs: number, waitP95Ms: number },
    wake: milliseconds,
    pool: { keys: 12, kernels: 4, found: 12, mostMb: number, seconds: number },
    executors: {
      subprocess: executor,
      container: { ...executor, dockerRunMs: number, startRatio: number, roundTripRatio: number },
      inProcess: { ...executor, coldMs: number, startRatio: number },
    },
    agents: {
      startMs: number,
      startP95Ms: number,
      nodeMs: number,
      memoryMb: number,
      callMs: number,
      callP95Ms: number,
      callsPerS: number,
    },
    gateway: { directMs: number, gatewayMs: number, gatewayP95Ms: number, addedMs: number },
    server: {
      libraryMs: number,
      httpMs: number,
      httpP95Ms: number,
      overheadMs: number,
      webSocketMs: number,
      webSocketP95Ms: number,
      jupyterMs: number,
      jupyterP95Ms: number,
      ratio: number,
    },
    templateMs: number,
    templateMb: number,
    machine: {
      cpu: text,
      cores: number,
      memoryGb: number,
      kernel: text,
      node: text,
      python: text,
      ipykernel: text,
      jupyterServer: text,
    },
  });
  for (const measure of ['start', 'roundTrip', 'memory', 'bigPrint', 'smallPrints'] as const) {
    expect(result[measure].ratio, measure).toBeGreaterThan(1);
  }
  expect(progress).toContain('round trip');
  expect(readdirSync(tmpdir()).filter((name) => name.startsWith('cella-bench-'))).toEqual([]);
  expect(descendants(process.pid)).toEqual([]);
});

it('measures one part on request, and lists the parts for an unknown one', async () => {
  const told: string[] = [];
  const tell = (text: string) => told.push(text);
  expect(await bench({ json: false, quick: true, only: 'nothing' }, tell, tell)).toBe(1);
  expect(told.join('')).toContain('kernels, executors, server');
});

it('reports a Python without ipykernel as an error that names what to install', async () => {
  await expect(findPeer('/bin/false')).rejects.toMatchObject({
    code: 'PEER_MISSING',
    message: expect.stringContaining('python3-ipykernel'),
  });
  await expect(jupyterServerVersion('/bin/false')).rejects.toMatchObject({
    code: 'PEER_MISSING',
    message: expect.stringContaining('python3-jupyter-server'),
  });
});
