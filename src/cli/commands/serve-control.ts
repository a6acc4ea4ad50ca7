/** `cella serve status` and `cella serve stop`. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CellaError, type Client, connect, type ServerStatus } from '../../client/index.ts';
import { withTimeout } from '../../lib/deadline.ts';
import { isStopped } from '../../lib/process-identity.ts';
import { SERVER_FILE, SOCKET_FILE } from '../../protocol/enums.ts';
import { Exit } from '../command-errors.ts';
import type { CommandOutput } from '../command-output.ts';
import type { FolderWatch, ServerCommands, ServerLockHolder } from '../context.ts';
import { escapeControls, formatCount, formatDuration, formatTime } from '../format.ts';

export async function status(dataDir: string, { watchFolder }: ServerCommands, report: CommandOutput): Promise<number> {
  await using watch = await watchFolder(dataDir);
  const running = await findRunningServer(dataDir, watch);
  switch (running.kind) {
    case 'answers': {
      await using client = running.client;
      const told = await client.server.status();
      await report.result({ running: true, ...told }, describeStatus(told).join('\n'));
      return Exit.ok;
    }
    case 'silent': {
      const { pid, host, since } = running.holder;
      const who = `Process ${pid} on ${host} has held ${dataDir} since ${formatTime(since)}`;
      const text = `${who} but does not answer: it is starting, ending or stuck.`;
      await report.result({ running: true, answers: false, pid, host, startedAt: since, dataDir }, text);
      return Exit.failed;
    }
    case 'none':
      await report.result({ running: false, dataDir }, describeNoServer(dataDir, running));
      return Exit.notRunning;
  }
}

function describeStatus(told: ServerStatus): string[] {
  const { kernels, executions, sessions } = told;
  const facts: readonly (readonly [string, string])[] = [
    ['state', told.stopping ? 'ending' : 'running'],
    ['address', told.url],
    ['data', told.dataDir],
    ['storage', told.storage],
    ['version', told.version],
    ['process', String(told.pid)],
    ['uptime', `${formatDuration(Date.now() - told.startedAt)}, since ${formatTime(told.startedAt)}`],
    ['sessions', String(sessions)],
    ['kernels', `${kernels.live} of ${kernels.most} live`],
    ['cells', `${executions.running} running, ${executions.queued} queued`],
  ];
  return facts.map(([title, text]) => `${title.padEnd(9)} ${escapeControls(text)}`);
}

interface StopRequest {
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
  const running = await findRunningServer(dataDir, watch);
  if (running.kind === 'none') {
    await report.success({ stopped: false, dataDir }, describeNoServer(dataDir, running));
    return Exit.ok;
  }
  if (running.kind === 'silent') throw stuckError(dataDir, running.holder, 'does not answer');
  await using client = running.client;
  // It answers: what the database says of it is not needed.
  const holder = await watch.holder().catch(() => undefined);
  const silent = () => stuckError(dataDir, { pid: holder?.pid ?? 0 }, 'does not answer');
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
  const gone = await waitUntilGone(waiting);
  if (!gone) throw stuckError(dataDir, { pid }, `still runs after ${formatDuration(patience)}`);
  const end = await telling;
  if ('untold' in end) throw unansweredError(pid, end.untold);
  if (end.failure) throw unsavedError(pid, end.failure);
  const what = gone === 'ended' ? `Process ${pid}` : `The server in process ${pid}`;
  const waitedMs = Math.round(performance.now() - began);
  await report.success({ stopped: true, dataDir, pid, waitedMs }, `${what} has ended.`);
  return Exit.ok;
}

interface StopProgress {
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
async function waitUntilGone({ watch, holder, telling, client, patience, report, signal }: StopProgress) {
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
      const text = await describeActivity(client, patience - (now - began));
      if (text !== said) await report.terminal.status(`Waiting for the end: ${text}`);
      said = text;
    }
    await delay(LOOK_MS, undefined, { signal });
  }
}

/** A server that was stopped, or is busy, says nothing: that is no reason to wait longer than `leftMs`. */
async function describeActivity(client: Client, leftMs: number): Promise<string> {
  try {
    const ms = Math.min(TELL_MS, leftMs);
    const { executions, kernels } = await withTimeout(client.server.status(), ms, () => new Error('it is silent'));
    if (executions.running > 0) return `${formatCount(executions.running, 'execution')} running`;
    return kernels.live > 0 ? `saving ${formatCount(kernels.live, 'kernel')}` : 'closing';
  } catch {
    // It answers nobody any more.
    return 'closing';
  }
}

function unsavedError(pid: number, cause: CellaError): CellaError {
  const { code, message, ownAdvice: advice } = cause;
  const text = `Process ${pid} has ended, but could not save everything: ${message}`;
  return new CellaError(code, text, { cause, advice });
}

/** It was killed, or has a version that does not report it. */
function unansweredError(pid: number, cause: unknown): CellaError {
  const message = `Process ${pid} has ended, but did not report whether it saved everything.`;
  const advice = 'Its log may say why; what was saved before is safe.';
  return new CellaError('SERVER_UNREACHABLE', message, { cause, advice });
}

function stuckError(dataDir: string, { pid }: Pick<ServerLockHolder, 'pid'>, what: string): CellaError {
  const advice = `If it is stuck, end it with \`kill -9 ${pid}\`. What was saved is safe.`;
  return new CellaError('SERVER_RUNNING', `Process ${pid}, which holds ${dataDir}, ${what}.`, { advice });
}

/** After the first, one that somebody has stopped is told as such; one that is busy has the second. */
const PROBE_TIMEOUT_MS = 3000;
const ANSWER_TIMEOUT_MS = 15_000;

type RunningServer =
  | { readonly kind: 'answers'; readonly client: Client }
  /** A process has the folder, and nobody answers at its socket: it starts, ends, or hangs. */
  | { readonly kind: 'silent'; readonly holder: ServerLockHolder }
  /** `left`: the last one ended so that it could not tidy up. */
  | { readonly kind: 'none'; readonly left: boolean };

/** A file that tells of a server proves nothing, for its process may have ended: only an answer or the lock does. */
async function findRunningServer(dataDir: string, watch: FolderWatch): Promise<RunningServer> {
  const socket = join(dataDir, SOCKET_FILE);
  try {
    return { kind: 'answers', client: await withAnswerTimeout(connect({ socket }), socket, watch) };
  } catch (error) {
    if (!(error instanceof CellaError && error.code === 'SERVER_UNREACHABLE')) throw error;
    const holder = await watch.holder();
    if (holder) return { kind: 'silent', holder };
    return { kind: 'none', left: existsSync(join(dataDir, SERVER_FILE)) };
  }
}

/** `SERVER_UNREACHABLE` where none comes. */
export async function withAnswerTimeout(
  connecting: Promise<Client>,
  socket: string,
  watch: Pick<FolderWatch, 'holder'>,
): Promise<Client> {
  const late = () => new CellaError('SERVER_UNREACHABLE', `Nobody answers at ${socket}.`);
  return await withTimeout(connecting, PROBE_TIMEOUT_MS, late).catch(async (error) => {
    const holder = await watch.holder();
    if (!holder || isStopped(holder.pid)) throw error;
    return await withTimeout(connecting, ANSWER_TIMEOUT_MS, late);
  });
}

function describeNoServer(dataDir: string, { left }: { readonly left: boolean }): string {
  const before = left ? ' The last one was killed; what it had saved is safe.' : '';
  return `No server runs on ${dataDir}.${before}`;
}
