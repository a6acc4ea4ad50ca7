/** `cella serve stop`: asks the server on a data folder to end, and waits until it has let the folder go. */

import { setTimeout as delay } from 'node:timers/promises';
import { CellaError, type Client } from '../../client/index.ts';
import { withTimeout } from '../../lib/deadline.ts';
import { Exit } from '../command-errors.ts';
import type { CommandOutput } from '../command-output.ts';
import type { FolderWatch, ServerCommands, ServerLockHolder } from '../context.ts';
import { formatDuration } from '../format.ts';
import { findRunning, noneText } from './running.ts';

export interface StopRequest {
  readonly dataDir: string;
  /** Without a grace for what runs. */
  readonly now: boolean;
  /** By default the server's own grace and a minute. */
  readonly timeoutMs: number | undefined;
}

const STOP_TIMEOUT_MS = 60_000;
/** It has answered a moment before. */
const ANSWER_MS = 15_000;
const LOOK_MS = 50;
const TELL_MS = 1000;
/** How long a process takes to exit when it is done. */
const EXIT_MS = 2000;

export async function stop(
  { dataDir, now, timeoutMs }: StopRequest,
  { watchFolder }: ServerCommands,
  report: CommandOutput,
  signal: AbortSignal,
): Promise<number> {
  await using watch = await watchFolder(dataDir);
  const running = await findRunning(dataDir, watch);
  if (running.kind === 'none') {
    await report.success({ stopped: false, dataDir }, noneText(dataDir, running));
    return Exit.ok;
  }
  if (running.kind === 'silent') throw stuck(dataDir, running.holder, 'does not answer');
  await using client = running.client;
  // It answers: what the database says of it is not needed.
  const holder = await watch.holder().catch(() => undefined);
  const silent = () => stuck(dataDir, { pid: holder?.pid ?? 0 }, 'does not answer');
  // Asked first, and kept open: its answer is the last that the server says.
  const telling = client.server.end().catch((error: unknown) => ({ untold: error }));
  const { pid, graceMs } = await withTimeout(client.server.status(), ANSWER_MS, silent);
  // The process that is meant: should another one have taken its place by now, that one goes on.
  await withTimeout(client.server.stop({ pid, ...(now ? { graceMs: 0 } : {}) }), ANSWER_MS, silent);
  const patience = timeoutMs ?? (now ? 0 : graceMs) + STOP_TIMEOUT_MS;
  const began = performance.now();
  const waiting = {
    watch,
    holder: holder?.pid === pid ? holder : undefined,
    telling,
    client,
    patience,
    report,
    signal,
  };
  const gone = await untilGone(waiting);
  if (!gone) throw stuck(dataDir, { pid }, `is still there after ${formatDuration(patience)}`);
  const end = await telling;
  if ('untold' in end) throw untold(pid, end.untold);
  if (end.failure) throw unsaved(pid, end.failure);
  const what = gone === 'ended' ? `Process ${pid}` : `The server in process ${pid}`;
  const waitedMs = Math.round(performance.now() - began);
  await report.success({ stopped: true, dataDir, pid, waitedMs }, `${what} has ended.`);
  return Exit.ok;
}

interface Waiting {
  readonly watch: FolderWatch;
  /** Undefined where nothing but its connection tells that it is there. */
  readonly holder: ServerLockHolder | undefined;
  /** Settles when the server has said how it ended, or cannot say it any more. */
  readonly telling: Promise<unknown>;
  readonly client: Client;
  readonly patience: number;
  readonly report: CommandOutput;
  readonly signal: AbortSignal;
}

/** Undefined where it took too long. `let go`: a program that had the server within it goes on. */
async function untilGone({ watch, holder, telling, client, patience, report, signal }: Waiting) {
  const began = performance.now();
  let [toldAt, said] = [began, ''];
  let over = false;
  let letGoAt = Number.POSITIVE_INFINITY;
  void telling.then(() => {
    over = true;
  });
  for (;;) {
    const now = performance.now();
    const sight = holder ? watch.holderState(holder) : 'ended';
    if (over && sight === 'ended') return sight;
    if (sight === 'let go') letGoAt = Math.min(letGoAt, now);
    if (over && sight === 'let go' && now - letGoAt > EXIT_MS) return sight;
    if (now - began > patience) return over && sight === 'let go' ? sight : undefined;
    if (!report.json && now - toldAt > TELL_MS) {
      toldAt = now;
      const text = await doing(client, patience - (now - began));
      if (text !== said) await report.terminal.status(`Waiting for it to end: ${text}`);
      said = text;
    }
    await delay(LOOK_MS, undefined, { signal });
  }
}

/** A server that was stopped, or is busy, says nothing: that is no reason to wait longer than `leftMs`. */
async function doing(client: Client, leftMs: number): Promise<string> {
  try {
    const ms = Math.min(TELL_MS, leftMs);
    const { executions, kernels } = await withTimeout(client.server.status(), ms, () => new Error('it is silent'));
    if (executions.running > 0) return `${counted(executions.running, 'execution')} running`;
    return kernels.live > 0 ? `${counted(kernels.live, 'kernel')} saved` : 'the last things are put away';
  } catch {
    // It answers nobody any more.
    return 'the last things are put away';
  }
}

function counted(count: number, what: string): string {
  return count === 1 ? `1 ${what} is` : `${count} ${what}s are`;
}

function unsaved(pid: number, cause: CellaError): CellaError {
  const { code, message, ownAdvice: advice } = cause;
  const text = `Process ${pid} has ended, and could not put everything away: ${message}`;
  return new CellaError(code, text, { cause, ...(advice === undefined ? {} : { advice }) });
}

/** It was killed, or is one of a version that does not tell. */
function untold(pid: number, cause: unknown): CellaError {
  const message = `Process ${pid} has ended, and did not tell whether it could save everything.`;
  const advice = 'Its log may say why; what was saved before is safe.';
  return new CellaError('DAEMON_UNREACHABLE', message, { cause, advice });
}

function stuck(dataDir: string, { pid }: Pick<ServerLockHolder, 'pid'>, what: string): CellaError {
  const way = `\`kill -9 ${pid}\` ends it, if that is what it is; what was saved is safe`;
  return new CellaError('DAEMON_RUNNING', `Process ${pid}, which has ${dataDir}, ${what}. ${way}.`);
}
