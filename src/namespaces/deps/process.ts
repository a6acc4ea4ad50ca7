/** One run of an installer: another user, a clean environment, bounded output, and an end for all that it started. */

import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { endsAfterKill, processEnd } from '../../lib/process-end.ts';
import type { SandboxUser } from '../../sandbox/sandbox-user.ts';

export interface InstallerRun {
  readonly command: string;
  readonly args: readonly string[];
  readonly identity: SandboxUser;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  onLine?(line: string): void;
}

export type Ending =
  | { readonly kind: 'ended'; readonly code: number | null; readonly signal: NodeJS.Signals | null }
  | { readonly kind: 'not-started'; readonly reason: string }
  | { readonly kind: 'timed-out' }
  | { readonly kind: 'aborted' };

export interface Outcome {
  readonly ending: Ending;
  /** The last ones, without colours. */
  readonly lines: readonly string[];
}

const KEPT_LINES = 400;
const KEPT_BYTES = 1000;

/** Resolves when nothing of it runs any more, but for what cannot be killed. */
export async function runInstaller(run: InstallerRun): Promise<Outcome> {
  if (run.signal.aborted) return { ending: { kind: 'aborted' }, lines: [] };
  const { root, uid, gid } = run.identity;
  let child: ChildProcessByStdio<null, Readable, Readable>;
  try {
    child = spawn(run.command, run.args, {
      cwd: run.cwd,
      env: run.env,
      stdio: ['ignore', 'pipe', 'pipe'],
      // A group of its own, so that all of it can be ended.
      detached: true,
      ...(root ? { uid, gid } : {}),
    });
  } catch (error) {
    // As where root may not become another user.
    return {
      ending: { kind: 'not-started', reason: error instanceof Error ? error.message : String(error) },
      lines: [],
    };
  }
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    readLines(stream, (line) => {
      lines.push(line);
      if (lines.length > KEPT_LINES) lines.shift();
      run.onLine?.(line);
    });
  }
  return { ending: await endOf(child, run), lines };
}

function endOf(child: ChildProcess, { signal, timeoutMs }: InstallerRun): Promise<Ending> {
  const { promise, resolve } = Promise.withResolvers<Ending>();
  let stopped: Ending | undefined;
  const stop = (ending: Ending) => {
    if (stopped) return;
    stopped = ending;
    killGroup(child);
    void endsAfterKill(promise, `The installer (process ${child.pid})`).then(() => resolve(ending));
  };
  const onAbort = () => stop({ kind: 'aborted' });
  const timer = setTimeout(() => stop({ kind: 'timed-out' }), timeoutMs);
  signal.addEventListener('abort', onAbort);
  // What it has left behind would hold the pipes open.
  child.once('exit', () => killGroup(child));
  processEnd(child).then(
    ({ code, signal: by }) => resolve(stopped ?? { kind: 'ended', code, signal: by }),
    (error) => resolve({ kind: 'not-started', reason: error.message }),
  );
  return promise.finally(() => {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  });
}

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // All of it has ended.
  }
}

/** Of each line the beginning is kept, so that one without end does not grow. */
function readLines(stream: Readable, onLine: (line: string) => void): void {
  let begun = Buffer.alloc(0);
  const take = (part: Buffer) => {
    const room = KEPT_BYTES - begun.length;
    if (room > 0 && part.length > 0) begun = Buffer.concat([begun, part.subarray(0, room)]);
  };
  const end = () => {
    const line = withoutColours(begun.toString()).trimEnd();
    begun = Buffer.alloc(0);
    if (line !== '') onLine(line);
  };
  stream.on('data', (chunk: Buffer) => {
    let from = 0;
    for (let at = chunk.indexOf('\n'); at >= 0; at = chunk.indexOf('\n', from)) {
      take(chunk.subarray(from, at));
      end();
      from = at + 1;
    }
    take(chunk.subarray(from));
  });
  stream.once('end', end);
}

function withoutColours(line: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out.
  return line.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '').replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, '');
}
