/** One program of a local environment: a child in a group of its own, with nothing of this process's environment. */

import { spawn } from 'node:child_process';
import { PassThrough, type Readable } from 'node:stream';
import { endsAfterKill } from '../lib/process-end.ts';
import { CellaError } from '../protocol/errors.ts';
import { enterGroup, killTree, newProcessTag, termTree } from '../sandbox/process-tree.ts';
import type { ExecExit, Execution } from './contract.ts';
import { feed, GRACE_MS } from './program.ts';

/** A process that escaped the kill may hold the pipes open; nothing waits for it longer. */
const PIPES_MS = 1000;

export interface LocalProgram {
  readonly argv: readonly string[];
  /** All of its variables. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly stdin?: 'pipe' | string | Uint8Array | undefined;
  /** Whose it is: in the mark by which all that it starts is found. */
  readonly owner: string;
}

export function startLocal({ argv, env, cwd, stdin, owner }: LocalProgram): Execution {
  const [program = '', ...args] = argv;
  const mark = newProcessTag(owner);
  const child = begin(program, args, { cwd, env: { ...env, ...mark.env }, stdin: stdin !== undefined });
  const group = child.pid === undefined ? undefined : enterGroup(child.pid, mark.group);
  let over = false;
  let timer: NodeJS.Timeout | undefined;
  const { promise: exited, resolve, reject } = Promise.withResolvers<ExecExit>();
  const killNow = () => {
    if (child.pid === undefined) return;
    killTree(child.pid, mark, { ownGroup: true });
    if (!over)
      void endsAfterKill(exited, `${program} (process ${child.pid})`).then(() => resolve({ signal: 'SIGKILL' }));
  };
  child.once('error', (error) => {
    if (child.pid !== undefined) return; // it has begun: the end is told by itself
    over = true;
    reject(notStarted(program, error));
  });
  child.once('exit', (code, signal) => {
    over = true;
    clearTimeout(timer);
    // It has ended when its program has: what it left behind would outlive it, and hold the pipes open.
    killNow();
    group?.[Symbol.dispose]();
    resolve(code === null ? { signal: signal ?? 'SIGKILL' } : { code });
  });
  exited.catch(() => {}); // whoever waits for it is told
  return {
    stdin: feed(child.stdin ?? undefined, stdin),
    stdout: outputOf(child.stdout, exited),
    stderr: outputOf(child.stderr, exited),
    exited,
    kill: ({ graceMs = GRACE_MS } = {}) => {
      if (over || child.pid === undefined) return;
      clearTimeout(timer);
      if (graceMs <= 0) return killNow();
      termTree(child.pid, mark);
      timer = setTimeout(killNow, graceMs);
    },
  };
}

function begin(program: string, args: string[], options: { cwd: string; env: Record<string, string>; stdin: boolean }) {
  try {
    const { cwd, env, stdin } = options;
    return spawn(program, args, { cwd, env, stdio: [stdin ? 'pipe' : 'ignore', 'pipe', 'pipe'], detached: true });
  } catch (error) {
    // Some reasons are thrown and others are told by an event: arguments that are too long are among the first.
    throw notStarted(program, error);
  }
}

/** What it writes is kept for whoever comes to read it, also after its end. */
function outputOf(pipe: Readable | null, exited: Promise<ExecExit>): Readable {
  const output = new PassThrough();
  if (!pipe) return output.end();
  pipe.on('error', () => output.end()); // the pipe of a program that was killed may break; what was read counts
  pipe.pipe(output);
  const letGo = () => {
    let before = -1;
    let seen = 0;
    pipe.on('data', (chunk: Buffer) => {
      seen += chunk.length;
    });
    // A reader that is slow is waited for; a pipe that is silent and open is somebody else's by now.
    const look = setInterval(() => {
      if (seen === before && !output.writableNeedDrain) pipe.destroy();
      before = seen;
    }, PIPES_MS).unref();
    pipe.once('close', () => {
      clearInterval(look);
      output.end();
    });
    if (pipe.closed) clearInterval(look);
  };
  exited.then(letGo, () => output.end());
  return output;
}

function notStarted(program: string, error: unknown): CellaError {
  const missing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
  const reason = missing ? 'there is no such program' : error instanceof Error ? error.message : String(error);
  return new CellaError('EXEC_FAILED', `${JSON.stringify(program)} could not be started: ${reason}.`, {
    cause: error,
  });
}
