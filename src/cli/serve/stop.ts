/** `cella serve stop`: asks the server on a data folder to end, and waits until it has let the folder go. */

import { setTimeout as delay } from 'node:timers/promises';
import { CellaError, type Client } from '../../client/index.ts';
import { inTime } from '../../lib/deadline.ts';
import type { FolderWatch, Holder, Servers } from '../context.ts';
import { Exit } from '../exit.ts';
import type { Report } from '../report.ts';
import { durationToText } from '../texts.ts';
import { findRunning, noneText } from './running.ts';

export interface StopRequest {
  readonly dataDir: string;
  /** Without a grace for what runs. */
  readonly now: boolean;
  /** By default the server's own grace and a minute. */
  readonly timeoutMs: number | undefined;
}

const PATIENCE_MS = 60_000;
/** It has answered a moment before. */
const ANSWER_MS = 15_000;
const LOOK_MS = 50;
const TELL_MS = 1000;

export async function stop(
  { dataDir, now, timeoutMs }: StopRequest,
  { watchFolder }: Servers,
  report: Report,
  signal: AbortSignal,
): Promise<number> {
  await using watch = await watchFolder(dataDir);
  const running = await findRunning(dataDir, watch);
  if (running.kind === 'none') {
    await report.done({ stopped: false, dataDir }, noneText(dataDir, running));
    return Exit.ok;
  }
  if (running.kind === 'silent') throw stuck(dataDir, running.holder, 'does not answer');
  await using client = running.client;
  const before = await watch.holder();
  const silent = () => stuck(dataDir, { pid: before?.pid ?? 0 }, 'does not answer');
  const { pid, graceMs } = await inTime(client.server.status(), ANSWER_MS, silent);
  // The process that is meant: should another one have taken its place by now, that one goes on.
  await inTime(client.server.stop({ pid, ...(now ? { graceMs: 0 } : {}) }), ANSWER_MS, silent);
  const patience = timeoutMs ?? (now ? 0 : graceMs) + PATIENCE_MS;
  const waited = await untilGone({ watch, before, client, patience, report, signal });
  if (waited === undefined) throw stuck(dataDir, { pid }, `is still there after ${durationToText(patience)}`);
  await report.done({ stopped: true, dataDir, pid, waitedMs: Math.round(waited) }, `Process ${pid} has ended.`);
  return Exit.ok;
}

interface Waiting {
  readonly watch: FolderWatch;
  readonly before: Holder | undefined;
  readonly client: Client;
  readonly patience: number;
  readonly report: Report;
  readonly signal: AbortSignal;
}

/** How long it took; undefined where it took too long. */
async function untilGone({ watch, before, client, patience, report, signal }: Waiting): Promise<number | undefined> {
  const began = performance.now();
  let told = began;
  for (;;) {
    const holder = await watch.holder();
    const elapsed = performance.now() - began;
    if (!holder || holder.pid !== before?.pid || holder.since !== before.since) return elapsed;
    if (elapsed > patience) return undefined;
    if (performance.now() - told > TELL_MS) {
      told = performance.now();
      if (!report.json)
        await report.terminal.status(`Waiting for it to end: ${await doing(client, patience - elapsed)}`);
    }
    await delay(LOOK_MS, undefined, { signal });
  }
}

/** A server that was stopped, or is busy, says nothing: that is no reason to wait longer than `leftMs`. */
async function doing(client: Client, leftMs: number): Promise<string> {
  try {
    const ms = Math.min(TELL_MS, leftMs);
    const { executions, kernels } = await inTime(client.server.status(), ms, () => new Error('it is silent'));
    if (executions.running > 0) return `${executions.running} executions run`;
    return kernels.live > 0 ? `${kernels.live} kernels are saved` : 'the last things are put away';
  } catch {
    // It answers nobody any more.
    return 'the last things are put away';
  }
}

function stuck(dataDir: string, { pid }: Pick<Holder, 'pid'>, what: string): CellaError {
  const way = `\`kill -9 ${pid}\` ends it, if that is what it is; what was saved is safe`;
  return new CellaError('DAEMON_RUNNING', `Process ${pid}, which has ${dataDir}, ${what}. ${way}.`);
}
