/** A tenant of a server beside another who does its worst: both have the default limits, and one machine. */

import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Cella } from '../../test/e2e/command.ts';
import { Served } from '../../test/support/served.ts';
import type { Plan } from '../plan.ts';
import type { Progress } from '../progress.ts';
import type { Neighbour } from '../result.ts';
import { median, percentile, rounded } from '../statistics.ts';

/** A person thinks between two cells; a program does so for less. */
const PAUSE_MS = 10;
const SETTLE_MS = 2000;

class Tenant {
  readonly #served: Served;
  readonly #token: string;
  readonly session: string;

  private constructor(served: Served, token: string, session: string) {
    this.#served = served;
    this.#token = token;
    this.session = session;
  }

  static async of(served: Served, name: string): Promise<Tenant> {
    await served.ask('POST /v1/users', { body: { name, role: 'member' } });
    const { token } = await served.ask<{ token: string }>('POST /v1/tokens', { body: { name: 'bench', user: name } });
    const { id } = await served.ask<{ id: string }>('POST /v1/sessions', { token, body: { agentKey: name } });
    return new Tenant(served, token, id);
  }

  async ask(what: string, body?: unknown): Promise<Record<string, unknown>> {
    return await this.#served.ask(what.replace('~', `/v1/sessions/${this.session}`), { token: this.#token, body });
  }

  async run(code: string, timeoutMs = 0): Promise<void> {
    const { status } = await this.ask('POST ~/execute', { code, timeoutMs });
    if (status !== 'ok') throw new Error(`The server answered ${status} to ${code.slice(0, 80)}`);
  }
}

/** Goes on until it is told to stop. What is refused to it, or costs it its kernel, is what limits are for. */
type Noise = (noisy: Tenant, stop: AbortSignal) => Promise<void>;

/** Cells of that code, one after the other. */
const cells =
  (code: string): Noise =>
  async (noisy, stop) => {
    while (!stop.aborted) await noisy.ask('POST ~/execute', { code, timeoutMs: 20_000 }).catch(() => delay(20));
  };

/** Several at once, each again and again. */
const calls =
  (atOnce: number, call: (noisy: Tenant) => Promise<unknown>): Noise =>
  async (noisy, stop) => {
    const one = async () => {
      while (!stop.aborted) await call(noisy).catch(() => delay(20));
    };
    await Promise.all(Array.from({ length: atOnce }, one));
  };

const noises: Readonly<Record<string, Noise>> = {
  'computes in 200 processes, each a session of its own': cells(`
import os, signal
pids = []
for _ in range(200):
    pid = os.fork()
    if pid == 0:
        # A scheduler that counts sessions is to be fooled, too.
        os.setsid()
        while True: pass
    pids.append(pid)
try:
    signal.pause()
finally:
    for pid in pids: os.kill(pid, signal.SIGKILL)`),
  'takes all memory that it can get': cells(`
blocks = []
while True:
    blocks.append(bytearray(b'x') * (32 << 20))`),
  'prints without end': cells(`
import sys
while True: sys.stdout.write('x' * 65536 + '\\n')`),
  'fills its disk': cells(`
import os
while True:
    with open('big', 'wb') as file:
        for _ in range(512): file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    for number in range(5000): open('small%d' % number, 'w').close()
    for number in range(5000): os.remove('small%d' % number)`),
  'saves 200 MB again and again': async (noisy, stop) => {
    await noisy.run('import os; big = os.urandom(200 << 20); count = 0');
    while (!stop.aborted) {
      await noisy.ask('POST ~/execute', { code: 'count += 1; big = os.urandom(200 << 20)' }).catch(() => delay(20));
      await noisy.ask('POST ~/save', {}).catch(() => delay(20));
    }
  },
  'forks processes without end': cells(`
import os
while True:
    try:
        if os.fork() == 0: os._exit(0)
        os.waitpid(-1, os.WNOHANG)
    except OSError: pass`),
  'forks its session 4 at a time': calls(4, async (noisy) => {
    const { id } = await noisy.ask('POST ~/fork', { agentKey: randomUUID() });
    await noisy.ask(`POST /v1/sessions/${id}/execute`, { code: 'x=1' });
    await noisy.ask(`DELETE /v1/sessions/${id}`);
  }),
  'prompts 16 at a time': calls(16, (noisy) => noisy.ask('POST ~/prompt', { prompt: 'x'.repeat(200_000) })),
};

/** What each cell took, for so long. */
async function samplesOf(tenant: Tenant, seconds: number): Promise<number[]> {
  const samples: number[] = [];
  for (const until = performance.now() + seconds * 1000; performance.now() < until; await delay(PAUSE_MS)) {
    const began = performance.now();
    await tenant.run('x=1');
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
  for (let run = 0; run < plan.runs; run++) {
    using cella = new Cella();
    const logs = ['--log-level', 'info', '--log-file', `${cella.temporary}/log`];
    await using served = await Served.start(cella, [...logs, '--python', python]);
    const [quiet, noisy] = [await Tenant.of(served, 'quiet'), await Tenant.of(served, 'noisy')];
    // Without a key no prompt gets far enough to cost anything.
    await noisy.ask('PUT /v1/credentials/anthropic', { value: 'sk-ant-bench' });
    for (let cell = 0; cell < plan.warmUpCells; cell++) await quiet.run('x=1');
    const found = new Map<string, number[]>();
    for (const [at, name] of names.entries()) {
      progress.tick(run * names.length + at, plan.runs * names.length);
      const over = new AbortController();
      const noise = noises[name]?.(noisy, over.signal);
      await delay(SETTLE_MS);
      found.set(name, await samplesOf(quiet, plan.seconds));
      over.abort();
      await noisy.ask('POST ~/restart', {}).catch(() => {}); // what it did may have cost it more than its kernel
      await noise;
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
