/** Runs programs on this host, never through a shell. Everything that a program starts ends with it. */

import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { PassThrough, type Readable, type Writable } from 'node:stream';
import { onAbort } from './abort.ts';
import { timeoutAfterIo } from './deadline.ts';
import { GatheredBytes } from './gathered-bytes.ts';
import { LineSplitter } from './line-splitter.ts';
import { endsAfterKill, sendSignal } from './process-end.ts';

export type ProcessEnd =
  | { readonly code: number; readonly signal?: undefined }
  /** By name: `SIGKILL`. */
  | { readonly signal: string; readonly code?: undefined };

export interface StartOptions {
  /** Default: that of this process, as for `env`. */
  readonly cwd?: string;
  /** The complete environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Whether stdin is a pipe; otherwise it is empty. */
  readonly hasStdin?: boolean;
  readonly user?: { readonly uid: number; readonly gid: number } | undefined;
  /** Kills the program and everything it started. Default: kills its process group. */
  readonly killTree?: (pid: number) => Promise<void>;
}

interface RunningProcess<End = ProcessEnd> {
  /** Output is kept until it is read, even after the program ends. */
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Rejects only if the program could not be started. */
  readonly exited: Promise<End>;
  /** Kills the program and everything it started. `exited` then settles in time, even if the process ignores SIGKILL. */
  kill(): void;
  /** Closes pipes that another process may hold open. Data already read from them is kept. */
  closeOutput(): void;
}

export interface StartedProcess extends RunningProcess {
  /** Undefined if the program could not be started. */
  readonly pid: number | undefined;
  readonly stdin: Writable | undefined;
}

/** Throws if the system refuses the call immediately, such as for arguments that are too long. */
export function startProcess(argv: readonly string[], options: StartOptions): StartedProcess {
  const [program = '', ...args] = argv;
  const { cwd, env, hasStdin, user, killTree = killGroup } = options;
  const stdio = [hasStdin ? 'pipe' : 'ignore', 'pipe', 'pipe'] as const;
  const child: ChildProcess = spawn(program, args, { cwd, env, ...user, stdio: [...stdio], detached: true });
  const { pid } = child;
  const exited = Promise.withResolvers<ProcessEnd>();
  let isOver = false;
  child.on('error', (error) => {
    if (pid === undefined) exited.reject(error);
  });
  child.once('exit', (code, signal) => {
    isOver = true;
    const end = code === null ? { signal: signal ?? 'SIGKILL' } : { code };
    // Leftover processes would outlive the program and hold the pipes open.
    if (pid === undefined) exited.resolve(end);
    else void killTree(pid).finally(() => exited.resolve(end));
  });
  exited.promise.catch(() => {}); // the caller gets the rejection
  return {
    pid,
    stdin: child.stdin ?? undefined,
    stdout: outputOf(child.stdout, exited.promise),
    stderr: outputOf(child.stderr, exited.promise),
    exited: exited.promise,
    kill: () => {
      if (pid === undefined || isOver) return;
      void killTree(pid);
      const ended = endsAfterKill(exited.promise, `${program} (process ${pid})`);
      void ended.then(() => exited.resolve({ signal: 'SIGKILL' }));
    },
    closeOutput: () => {
      for (const pipe of [child.stdout, child.stderr]) pipe?.destroy();
    },
  };
}

async function killGroup(pid: number): Promise<void> {
  sendSignal(-pid, 'SIGKILL');
}

/** A pipe that is silent for this long after its process ended is held open by another process. */
export const SILENT_PIPE_MS = 1000;

function outputOf(pipe: Readable | null, exited: Promise<unknown>): Readable {
  const output = new PassThrough();
  if (!(pipe instanceof Socket)) return output.end();
  pipe.on('error', () => {}); // the pipe of a killed program may break
  pipe.once('close', () => output.end());
  pipe.pipe(output);
  const closeWhenSilent = () => {
    let before = pipe.bytesRead;
    const check = setInterval(() => {
      // Do not count the time in which the reader is slow.
      if (pipe.bytesRead === before && !output.writableNeedDrain) pipe.destroy();
      before = pipe.bytesRead;
    }, SILENT_PIPE_MS).unref();
    pipe.once('close', () => clearInterval(check));
    if (pipe.closed) clearInterval(check);
  };
  exited.then(closeWhenSilent, () => output.end());
  return output;
}

interface RunLimits {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
  /** How much of stdout and of stderr is kept, each. The rest is counted and dropped. */
  readonly outputLimitBytes: number;
  /** Called with each line as text; long lines are cut off. */
  readonly onLine?: (line: string, stream: 'stdout' | 'stderr') => void;
}

export interface ProcessResult<End = ProcessEnd> {
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  /** Dropped bytes. */
  readonly stdoutCut: number;
  readonly stderrCut: number;
  readonly exit: End;
  readonly timedOut: boolean;
}

/** The output of an ended program is readable immediately. Another process holds a pipe that stays open longer. */
const DRAIN_TIMEOUT_MS = 1000;

/** Waits for a program to end. Kills it at its timeout or when the signal is aborted. */
export async function finishProcess<End>(running: RunningProcess<End>, limits: RunLimits): Promise<ProcessResult<End>> {
  const output = Promise.all([gather(running, 'stdout', limits), gather(running, 'stderr', limits)]);
  let timedOut = false;
  const expire = () => {
    timedOut = true;
    running.kill();
  };
  const timer = limits.timeoutMs === undefined ? undefined : setTimeout(expire, limits.timeoutMs);
  using _ = onAbort(limits.signal, () => running.kill());
  try {
    const exit = await running.exited;
    const cancel = timeoutAfterIo(DRAIN_TIMEOUT_MS, () => running.closeOutput());
    const [stdout, stderr] = await output;
    cancel();
    return {
      exit,
      stdout: stdout.bytes(),
      stderr: stderr.bytes(),
      stdoutCut: stdout.cut,
      stderrCut: stderr.cut,
      timedOut,
    };
  } finally {
    clearTimeout(timer);
  }
}

export async function runProcess(argv: readonly string[], options: StartOptions & RunLimits): Promise<ProcessResult> {
  return await finishProcess(startProcess(argv, options), options);
}

/** How much of each stream of a short program is kept. */
const SHORT_OUTPUT_BYTES = 1024 * 1024;

/** Runs a short program and returns its stdout. Rejects with the reason, such as the last line of its stderr. */
export async function runProgram(argv: readonly string[], timeoutMs: number): Promise<string> {
  const { stdout, stderr, exit, timedOut } = await runProcess(argv, {
    timeoutMs,
    outputLimitBytes: SHORT_OUTPUT_BYTES,
  });
  if (exit.code === 0) return stdout.toString();
  if (timedOut) throw new Error('it did not answer in time');
  const how = exit.code === undefined ? `it was ended by ${exit.signal}` : `it exited with code ${exit.code}`;
  throw new Error(stderr.toString().trim().split('\n').at(-1) || how);
}

const LINE_BYTES = 1000;

async function gather(
  running: RunningProcess<unknown>,
  stream: 'stdout' | 'stderr',
  { outputLimitBytes, onLine }: RunLimits,
): Promise<GatheredBytes> {
  const gathered = new GatheredBytes(outputLimitBytes);
  const lines = onLine && new LineSplitter(LINE_BYTES);
  for await (const chunk of running[stream]) {
    gathered.push(chunk);
    for (const { bytes } of lines?.push(chunk) ?? []) onLine?.(Buffer.from(bytes).toString(), stream);
  }
  const last = lines?.end();
  if (last) onLine?.(Buffer.from(last.bytes).toString(), stream);
  return gathered;
}
