/** `cella serve status` and `cella serve stop`. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CellaError, type Client, connect, type ServerStatus } from '../../client/index.ts';
import { withTimeout } from '../../lib/deadline.ts';
import { isStopped } from '../../lib/process-identity.ts';
import { SERVER_FILE, SOCKET_FILE } from '../../protocol/enums.ts';
import type { LockOwner } from '../../storage/contract.ts';
import type { CommandOutput } from '../command-output.ts';
import { Exit } from '../exit-codes.ts';
import { formatCount, formatDuration, formatTime } from '../format.ts';

/** Repeatedly checks a data folder. */
interface FolderWatch extends AsyncDisposable {
  /** Throws `STORAGE_FAILED` if a process has the folder open but cannot be identified. */
  owner(): Promise<LockOwner | undefined>;
  /** Whether the owner still has the folder. `let go`: the process lives, but has closed it. */
  ownerState(owner: LockOwner): 'has it' | 'let go' | 'ended';
}

/** Creates nothing. Prefers what the server reports about itself, because its database may be damaged. */
async function watchFolder(dataDir: string): Promise<FolderWatch> {
  const [{ FileStorage }, { ProcessLiveness }, { folderOwner, announcedOwner }] = await Promise.all([
    import('../../storage/file/file-storage.ts'),
    import('../../storage/file/process-liveness.ts'),
    import('../../server/data-folder.ts'),
  ]);
  const liveness = new ProcessLiveness(join(dataDir, 'processes'));
  const ownerByLock = async () => {
    if (!existsSync(join(dataDir, 'cella.db'))) return undefined;
    await using files = await FileStorage.open(dataDir);
    return await folderOwner(files.locks);
  };
  return {
    owner: async () => {
      const announced = announcedOwner(dataDir);
      if (announced && liveness.isAlive(announced.id)) return announced;
      return liveness.inUse ? await ownerByLock() : undefined;
    },
    ownerState: ({ id }) => liveness.statusOf(id),
    [Symbol.asyncDispose]: async () => liveness.close(),
  };
}

export async function status(dataDir: string, report: CommandOutput): Promise<number> {
  await using watch = await watchFolder(dataDir);
  const running = await findRunningServer(dataDir, watch);
  switch (running.kind) {
    case 'answers': {
      await using client = running.client;
      const status = await client.server.status();
      await report.facts({ running: true, ...status }, describeStatus(status));
      return Exit.ok;
    }
    case 'silent': {
      const { pid, host, since } = running.owner;
      const who = `Process ${pid} on ${host} has held ${dataDir} since ${formatTime(since)}`;
      const text = `${who} but does not answer: it is starting, shutting down or stuck.`;
      await report.result({ running: true, answers: false, pid, host, startedAt: since, dataDir }, text);
      return Exit.failed;
    }
    case 'none':
      await report.result({ running: false, dataDir }, describeNoServer(dataDir, running));
      return Exit.notRunning;
  }
}

function describeStatus(status: ServerStatus): readonly (readonly [string, string])[] {
  const { kernels, executions, sessions } = status;
  return [
    ['state', status.draining ? 'draining' : 'running'],
    ['address', status.url],
    ['data', status.dataDir],
    ['storage', status.storage],
    ['version', status.version],
    ['process', String(status.pid)],
    ['uptime', `${formatDuration(Date.now() - status.startedAt)}, since ${formatTime(status.startedAt)}`],
    ['sessions', String(sessions)],
    ['kernels', `${kernels.live} of ${kernels.most} live`],
    ['cells', `${executions.running} running, ${executions.queued} queued`],
  ];
}

interface StopRequest {
  readonly dataDir: string;
  /** Without a grace period for running work. */
  readonly now: boolean;
  /** Defaults to the server's own grace period plus a minute. */
  readonly timeoutMs: number | undefined;
}

const STOP_TIMEOUT_MS = 60_000;
/** The server answered just before, so it should answer again in this time. */
const ANSWER_MS = 15_000;
const LOOK_MS = 50;
const REPORT_MS = 1000;
/** How long a process may take to exit after it has finished. */
const EXIT_MS = 2000;

export async function stop(
  { dataDir, now, timeoutMs }: StopRequest,
  report: CommandOutput,
  signal: AbortSignal,
): Promise<number> {
  await using watch = await watchFolder(dataDir);
  const running = await findRunningServer(dataDir, watch);
  if (running.kind === 'none') {
    await report.success({ stopped: false, dataDir }, describeNoServer(dataDir, running));
    return Exit.ok;
  }
  if (running.kind === 'silent') throw stuckError(dataDir, running.owner, 'does not answer');
  await using client = running.client;
  // The server answers, so the database's record of it is not needed.
  const owner = await watch.owner().catch(() => undefined);
  const silent = () => stuckError(dataDir, { pid: owner?.pid ?? 0 }, 'does not answer');
  // Requested first and kept open, because the response is the last thing the server sends.
  const ending = client.server.end().catch((error: unknown) => ({ unreported: error }));
  const { pid, graceMs } = await withTimeout(client.server.status(), ANSWER_MS, silent);
  // Names the intended process: if another one has replaced it, that one keeps running.
  await withTimeout(client.server.stop({ pid, ...(now ? { graceMs: 0 } : {}) }), ANSWER_MS, silent);
  const totalMs = timeoutMs ?? (now ? 0 : graceMs) + STOP_TIMEOUT_MS;
  const began = performance.now();
  const waiting = {
    watch,
    owner: owner?.pid === pid ? owner : undefined,
    ending,
    client,
    timeoutMs: totalMs,
    report,
    signal,
  };
  const gone = await waitUntilGone(waiting);
  if (!gone) throw stuckError(dataDir, { pid }, `still runs after ${formatDuration(totalMs)}`);
  const end = await ending;
  if ('unreported' in end) throw unansweredError(pid, end.unreported);
  if (end.failure) throw unsavedError(pid, end.failure);
  const what = gone === 'ended' ? `Process ${pid}` : `The server in process ${pid}`;
  const waitedMs = Math.round(performance.now() - began);
  await report.success({ stopped: true, dataDir, pid, waitedMs }, `${what} has ended.`);
  return Exit.ok;
}

interface StopProgress {
  readonly watch: FolderWatch;
  /** Undefined if only its connection shows that it exists. */
  readonly owner: LockOwner | undefined;
  /** Settles when the server has reported how it ended, or can no longer report it. */
  readonly ending: Promise<unknown>;
  readonly client: Client;
  readonly timeoutMs: number;
  readonly report: CommandOutput;
  readonly signal: AbortSignal;
}

/** Undefined on timeout. `let go`: a program that contained the server keeps running. */
async function waitUntilGone({ watch, owner, ending, client, timeoutMs, report, signal }: StopProgress) {
  const began = performance.now();
  let [reportedAt, lastText] = [began, ''];
  let over = false;
  let letGoAt = Number.POSITIVE_INFINITY;
  void ending.then(() => {
    over = true;
  });
  for (;;) {
    const now = performance.now();
    const sight = owner ? watch.ownerState(owner) : 'ended';
    if (over && sight === 'ended') return sight;
    if (sight === 'let go') letGoAt = Math.min(letGoAt, now);
    if (over && sight === 'let go' && now - letGoAt > EXIT_MS) return sight;
    if (now - began > timeoutMs) return over && sight === 'let go' ? sight : undefined;
    if (!report.json && now - reportedAt > REPORT_MS) {
      reportedAt = now;
      const text = await describeActivity(client, timeoutMs - (now - began));
      if (text !== lastText) await report.terminal.status(`Waiting for the end: ${text}`);
      lastText = text;
    }
    await delay(LOOK_MS, undefined, { signal });
  }
}

/** A paused or busy server reports nothing, which must not extend the wait beyond `leftMs`. */
async function describeActivity(client: Client, leftMs: number): Promise<string> {
  try {
    const ms = Math.min(REPORT_MS, leftMs);
    const { executions, kernels } = await withTimeout(client.server.status(), ms, () => new Error('it is silent'));
    if (executions.running > 0) return `${formatCount(executions.running, 'execution')} running`;
    return kernels.live > 0 ? `saving ${formatCount(kernels.live, 'kernel')}` : 'closing';
  } catch {
    // It no longer answers requests.
    return 'closing';
  }
}

function unsavedError(pid: number, cause: CellaError): CellaError {
  const { code, message, ownAdvice: advice } = cause;
  const text = `Process ${pid} has ended, but could not save everything: ${message}`;
  return new CellaError(code, text, { cause, advice });
}

/** The server was killed, or its version does not report its end. */
function unansweredError(pid: number, cause: unknown): CellaError {
  const message = `Process ${pid} has ended, but did not report whether it saved everything.`;
  const advice = 'Its log may say why; what was saved before is safe.';
  return new CellaError('SERVER_UNREACHABLE', message, { cause, advice });
}

function stuckError(dataDir: string, { pid }: Pick<LockOwner, 'pid'>, what: string): CellaError {
  const advice = `If it is stuck, end it with \`kill -9 ${pid}\`. What was saved is safe.`;
  return new CellaError('SERVER_RUNNING', `Process ${pid}, which holds ${dataDir}, ${what}.`, { advice });
}

/** After the first probe fails, a paused server is reported as paused; a busy one gets the second timeout. */
const PROBE_TIMEOUT_MS = 3000;
const ANSWER_TIMEOUT_MS = 15_000;

type RunningServer =
  | { readonly kind: 'answers'; readonly client: Client }
  /** A process has the folder, but its socket does not answer: it is starting, ending or hanging. */
  | { readonly kind: 'silent'; readonly owner: LockOwner }
  /** `left`: the last server ended without cleaning up. */
  | { readonly kind: 'none'; readonly left: boolean };

/** A server's file proves nothing, because its process may have ended. Only an answer or the lock does. */
async function findRunningServer(dataDir: string, watch: FolderWatch): Promise<RunningServer> {
  const socket = join(dataDir, SOCKET_FILE);
  try {
    return { kind: 'answers', client: await withAnswerTimeout(connect({ socket }), socket, watch) };
  } catch (error) {
    if (!(error instanceof CellaError && error.code === 'SERVER_UNREACHABLE')) throw error;
    const owner = await watch.owner();
    if (owner) return { kind: 'silent', owner };
    return { kind: 'none', left: existsSync(join(dataDir, SERVER_FILE)) };
  }
}

/** Throws `SERVER_UNREACHABLE` if no answer arrives. */
export async function withAnswerTimeout(
  connecting: Promise<Client>,
  socket: string,
  watch: Pick<FolderWatch, 'owner'>,
): Promise<Client> {
  const late = () => new CellaError('SERVER_UNREACHABLE', `Nobody answers at ${socket}.`);
  return await withTimeout(connecting, PROBE_TIMEOUT_MS, late).catch(async (error) => {
    const owner = await watch.owner();
    if (!owner || isStopped(owner.pid)) throw error;
    return await withTimeout(connecting, ANSWER_TIMEOUT_MS, late);
  });
}

function describeNoServer(dataDir: string, { left }: { readonly left: boolean }): string {
  const before = left ? ' The last one was killed; what it had saved is safe.' : '';
  return `No server runs on ${dataDir}.${before}`;
}
