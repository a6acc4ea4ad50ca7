/** Runs programs on the host itself, for tools whose definition says `runs_on: host`. */

import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { onAbort } from '../../lib/abort.ts';
import { systemCode } from '../../lib/errno.ts';
import { endsAfterKill } from '../../lib/process-end.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Command, CommandResult, CommandRunner, ProcessExit } from '../../protocol/process.ts';
import { killTree, newProcessTag } from '../../sandbox/process-tree.ts';

/** Where host programs run, and the little that they see of the host's environment. */
export interface HostCommandOptions {
  readonly cwd: string;
  readonly path: string;
  readonly home: string;
}

export const DEFAULT_HOST_OPTIONS: HostCommandOptions = {
  cwd: '/',
  path: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  home: '/nonexistent',
};

/** A process that escaped the kill may hold the pipes open; nothing waits for it longer. */
const PIPES_MS = 1000;

export class HostCommands implements CommandRunner {
  readonly #options: HostCommandOptions;

  constructor(options: Partial<HostCommandOptions> = {}) {
    this.#options = { ...DEFAULT_HOST_OPTIONS, ...options };
  }

  async run(command: Command): Promise<CommandResult> {
    const mark = newProcessTag();
    const [program = '', ...args] = command.argv;
    const child = start(program, args, {
      cwd: this.#options.cwd,
      env: { ...hostEnv(this.#options), ...command.env, ...mark.env },
    });
    const stdout = keep(child.stdout, command.outputLimitBytes);
    const stderr = keep(child.stderr, command.outputLimitBytes);
    let timedOut = false;
    const exited = exit(child, program);
    const unkillable = Promise.withResolvers<ProcessExit>();
    let isEnding = false;
    const end = () => {
      if (child.pid === undefined || isEnding) return;
      isEnding = true;
      killTree(child.pid, mark, { ownGroup: true });
      void endsAfterKill(exited, `The program ${program} (process ${child.pid})`).then((ended) => {
        if (!ended) unkillable.resolve({ signal: 'SIGKILL' });
      });
    };
    const timer = setTimeout(() => {
      timedOut = true;
      end();
    }, command.timeoutMs);
    using _ = onAbort(command.signal, end);
    try {
      const ended = await Promise.race([exited, unkillable.promise]);
      // A tool has ended when its program has: what it left behind would outlive the call, and hold the pipes open.
      if (child.pid !== undefined) killTree(child.pid, mark, { ownGroup: true });
      if (isOver(child)) await closed(child);
      return {
        exit: ended,
        stdout: stdout.bytes(),
        stderr: stderr.bytes(),
        stdoutCut: stdout.cut(),
        stderrCut: stderr.cut(),
        timedOut,
      };
    } finally {
      clearTimeout(timer);
    }
  }
}

export function hostEnv({ path, home }: HostCommandOptions): Record<string, string> {
  return { PATH: path, HOME: home, LANG: 'C.UTF-8' };
}

function start(program: string, args: readonly string[], options: { cwd: string; env: Record<string, string> }) {
  try {
    return spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  } catch (error) {
    // Some errors are thrown, such as E2BIG; others come as an event.
    throw notStartedError(program, error);
  }
}

function exit(child: ChildProcess, program: string): Promise<ProcessExit> {
  return new Promise((resolve, reject) => {
    child.on('error', (error) => reject(notStartedError(program, error)));
    child.once('exit', (code, signal) => resolve(code === null ? { signal: signal ?? 'SIGKILL' } : { code }));
  });
}

export function notStartedError(program: string, error: unknown): CellaError {
  const missing = systemCode(error) === 'ENOENT';
  const reason = missing
    ? 'there is no such program on the host'
    : error instanceof Error
      ? error.message
      : String(error);
  return new CellaError('TOOL_FAILED', `The program ${JSON.stringify(program)} could not be started: ${reason}.`, {
    cause: error,
  });
}

/** Whether the system has said so. */
function isOver({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

async function closed(child: ChildProcess): Promise<void> {
  const streams = [child.stdout, child.stderr].filter((stream) => stream !== null);
  if (streams.every((stream) => stream.closed)) return;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(() => {
      for (const stream of streams) stream.destroy();
    }, PIPES_MS);
    child.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** All of it is read, so that the program never waits; what is over the limit is counted and dropped. */
function keep(stream: Readable, limit: number): { bytes(): Buffer; cut(): number } {
  const chunks: Buffer[] = [];
  let kept = 0;
  let cut = 0;
  stream.on('data', (chunk: Buffer) => {
    const part = chunk.subarray(0, limit - kept);
    if (part.length > 0) chunks.push(part);
    kept += part.length;
    cut += chunk.length - part.length;
  });
  // The pipe of a program that was killed may break; what was read counts.
  stream.on('error', () => undefined);
  return { bytes: () => Buffer.concat(chunks), cut: () => cut };
}
