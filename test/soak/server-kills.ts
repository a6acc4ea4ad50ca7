/**
 * A server that is killed under load, again and again. On each restart every session is there, numbers have no gap, all
 * that was acknowledged or seen is in the log, what ran is marked as interrupted and told to whoever follows, a retried
 * request runs nothing twice, and no process of the server that was killed is left.
 */

import { setTimeout as delay } from 'node:timers/promises';
import type { Cella } from '../support/cli/command.ts';
import { descendants, processes, templatesOf } from '../support/processes/processes.ts';
import { Served } from '../support/servers/serve-process.ts';
import { Churn } from './churn.ts';
import { Worker } from './worker.ts';

export interface ServerKills {
  readonly cella: Cella;
  readonly rounds: number;
  /** Beside those of a test: where it stores, for one. */
  readonly flags?: readonly string[];
  /** 0 to 1. */
  readonly random: () => number;
  readonly progress: (line: string) => void;
}

export interface KillReport {
  readonly rounds: number;
  readonly acknowledged: number;
  readonly events: number;
  /** Executions that ran when the server was killed. */
  readonly interrupted: number;
  /** Requests with an Idempotency-Key that nobody answered, and that were told to be lost afterwards. */
  readonly lost: number;
}

const WORKERS = ['a', 'b', 'c'];
/** The server ends somewhere in this time after the first answer. */
const LATER_MS = 150;
const TIMEOUT_MS = 20_000;

export async function serverKills({ cella, rounds, flags = [], random, progress }: ServerKills): Promise<KillReport> {
  const workers = WORKERS.map((key) => new Worker(key));
  const churn = new Churn();
  let wakingMs = 0;
  for (let round = 1; round <= rounds; round++) {
    const served = await Served.start(cella, flags);
    try {
      await checkAll(served, workers, churn);
      // As often in the middle of waking kernels as in the middle of work.
      const early = wakingMs > 0 && random() < 0.5 ? random() * wakingMs : undefined;
      wakingMs = (await load(served, workers, churn, early)) ?? wakingMs;
      if (early === undefined) await delay(random() * LATER_MS);
      await killAndSeeItGone(served);
      await Promise.all([...workers, churn].map((client) => client.over()));
    } catch (error) {
      served.started.child.kill('SIGKILL');
      throw new Error(`in round ${round}: ${served.started.err.slice(-1000)}`, { cause: error });
    }
    progress(`${round} of ${rounds}: ${describe(workers)}`);
  }
  await using served = await Served.start(cella, flags);
  await checkAll(served, workers, churn);
  for (const worker of workers) await worker.checkAll(served);
  const total = (count: (worker: Worker) => number) => workers.reduce((sum, worker) => sum + count(worker), 0);
  return {
    rounds,
    acknowledged: total(({ acknowledged }) => acknowledged),
    events: total(({ checked }) => checked),
    interrupted: total(({ interrupted }) => interrupted),
    lost: total(({ lost }) => lost),
  };
}

async function checkAll(served: Served, workers: readonly Worker[], churn: Churn): Promise<void> {
  const ids = workers.flatMap(({ session }) => session ?? []);
  await churn.check(served, ids);
  await Promise.all(workers.map((worker) => worker.resume(served)));
}

/** Until the first answer, and tells how long that took; or for so long. */
async function load(
  served: Served,
  workers: readonly Worker[],
  churn: Churn,
  early: number | undefined,
): Promise<number | undefined> {
  const began = performance.now();
  const first = Promise.race(workers.map((worker) => worker.work(served)));
  first.catch(() => {}); // told by `over`
  churn.work(served);
  if (early !== undefined) return void (await delay(early));
  await first;
  return performance.now() - began;
}

async function killAndSeeItGone(served: Served): Promise<void> {
  const folders = templatesOf(served.pid).map(({ folder }) => folder);
  const below = new Set(descendants(served.pid).map(({ pid }) => pid));
  served.started.child.kill('SIGKILL');
  for (const deadline = performance.now() + TIMEOUT_MS; ; ) {
    // A kernel has the command line of the template that it came from, whenever it was made.
    const left = processes().filter(
      ({ pid, command }) => below.has(pid) || folders.some((folder) => folder !== '' && command.includes(folder)),
    );
    if (left.length === 0) break;
    if (performance.now() > deadline) throw new Error(`it left processes behind: ${JSON.stringify(left)}`);
    await delay(2);
  }
  await served.started.ended;
}

function describe(workers: readonly Worker[]): string {
  return workers.map(({ acknowledged, interrupted }) => `${acknowledged} told, ${interrupted} interrupted`).join('; ');
}
