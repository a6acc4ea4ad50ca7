/** One user's latency while another user of the same server causes as much load as possible. Both have the default limits. */

import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { programsDir } from '../../src/agents/installed-programs.ts';
import { bringAgent } from '../../test/support/agents/agents-setup.ts';
import { Cella } from '../../test/support/cli/command.ts';
import { Served } from '../../test/support/servers/serve-process.ts';
import type { Plan } from '../plan.ts';
import { KEY, NoisyUser, type NoisyUserFacts, noises } from '../programs/noisy-user.ts';
import type { Progress } from '../progress.ts';
import type { Neighbour } from '../result.ts';
import { median, percentile, rounded } from '../statistics.ts';

/** The pause between two cells. */
const PAUSE_MS = 10;
const SETTLE_MS = 2000;

async function factsOf(served: Served, name: string): Promise<NoisyUserFacts> {
  await served.ask('POST /v1/users', { body: { name, role: 'member' } });
  const { token } = await served.ask<{ token: string }>('POST /v1/tokens', { body: { name: 'bench', user: name } });
  const { id } = await served.ask<{ id: string }>('POST /v1/sessions', { token, body: { agentKey: name } });
  return { url: served.url, token, session: id };
}

/** In its own process, so that the work of making load is not measured. */
function startNoise(facts: NoisyUserFacts, name: string): ChildProcess {
  const program = fileURLToPath(new URL('../programs/noisy-user.ts', import.meta.url));
  const child = fork(program, { execArgv: ['--no-warnings'] });
  child.send({ facts, name });
  return child;
}

/** A provider that answers each call of an agent at once. It ends with its input. */
async function startProvider(): Promise<{ readonly url: string } & Disposable> {
  const program = fileURLToPath(new URL('../programs/standin-provider.mjs', import.meta.url));
  const child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [port] = await once(child.stdout, 'data');
  return { url: `http://127.0.0.1:${Number(String(port))}`, [Symbol.dispose]: () => void child.stdin.end() };
}

/** Prompts that all fail would cause no load. */
async function checkTurns(noisy: NoisyUser): Promise<void> {
  await noisy.ask('PUT /v1/credentials/anthropic', { value: KEY });
  const { status, text, error } = await noisy.ask('POST ~/prompt', { prompt: 'Say hello.' });
  if (status !== 'completed' || text !== 'Hello.')
    throw new Error(`No turn: ${JSON.stringify({ status, text, error })}`);
}

/** The duration of each cell, during this time. */
async function samplesOf(user: NoisyUser, seconds: number): Promise<number[]> {
  const samples: number[] = [];
  for (const until = performance.now() + seconds * 1000; performance.now() < until; await delay(PAUSE_MS)) {
    const began = performance.now();
    await user.run('x=1');
    samples.push(performance.now() - began);
  }
  return samples;
}

export async function measureNeighbours(
  python: string,
  plan: Plan['neighbours'],
  progress: Progress,
): Promise<readonly Neighbour[]> {
  const names = ['with nobody beside it', ...Object.keys(noises)];
  const runs: Map<string, number[]>[] = [];
  const programs = dirname(dirname(await bringAgent('claude')));
  using provider = await startProvider();
  for (let run = 0; run < plan.runs; run++) {
    using cella = new Cella();
    await cp(programs, programsDir(cella.dataDir), { recursive: true });
    const logs = ['--log-level', 'info', '--log-file', `${cella.temporary}/log`];
    const flags = [...logs, '--python', python, '--provider', `anthropic=${provider.url}`];
    await using served = await Served.start(cella, flags);
    const facts = await factsOf(served, 'noisy');
    const [quiet, noisy] = [new NoisyUser(await factsOf(served, 'quiet')), new NoisyUser(facts)];
    await checkTurns(noisy);
    for (let cell = 0; cell < plan.warmUpCells; cell++) await quiet.run('x=1');
    const found = new Map<string, number[]>();
    for (const [at, name] of names.entries()) {
      progress.tick(run * names.length + at, plan.runs * names.length);
      const noise = name in noises ? startNoise(facts, name) : undefined;
      await delay(SETTLE_MS);
      found.set(name, await samplesOf(quiet, plan.seconds));
      noise?.disconnect();
      await noisy.ask('POST ~/restart', {}).catch(() => {}); // its load may have ended more than its kernel
      if (noise?.exitCode === null) await once(noise, 'exit');
      await delay(SETTLE_MS);
    }
    runs.push(found);
  }
  const p99 = (found: Map<string, number[]>, name: string) => percentile(found.get(name) ?? [], 99);
  return names.map((noise) => ({
    noise,
    p50Ms: rounded(median(runs.map((found) => median(found.get(noise) ?? [])))),
    p99Ms: rounded(median(runs.map((found) => p99(found, noise)))),
    ratio: rounded(median(runs.map((found) => p99(found, noise) / p99(found, names[0] ?? '')))),
  }));
}
