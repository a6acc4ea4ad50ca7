/** Runs a program in a kernel host to its end, with a timeout and bounded output. */

import type { ByteSource } from '../kernel/kernel-connection.ts';
import { onAbort } from '../lib/abort.ts';
import { timeoutAfterIo } from '../lib/deadline.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Command, CommandResult } from '../protocol/process.ts';
import type { KernelHost, RunningProgram } from './kernel-host.ts';

/** After the exit of a program its output can be read at once; a pipe that is open longer is held by another process. */
const DRAIN_TIMEOUT_MS = 1000;

export async function runToEnd(
  host: KernelHost,
  command: Command,
  packages: string | undefined,
): Promise<CommandResult> {
  command.signal?.throwIfAborted();
  const link = await host.exec({ argv: command.argv, env: command.env ?? {}, packages });
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    link.kill();
  }, command.timeoutMs);
  using _ = onAbort(command.signal, () => link.kill());
  try {
    return await finish(link, command, () => timedOut);
  } finally {
    clearTimeout(timer);
  }
}

async function finish(link: RunningProgram, command: Command, timedOut: () => boolean): Promise<CommandResult> {
  const output = Promise.all([
    collect(link.stdout, command.outputLimitBytes),
    collect(link.stderr, command.outputLimitBytes),
  ]);
  const exit = await link.exited;
  // The program may have left a process that holds its output open.
  const cancel = timeoutAfterIo(DRAIN_TIMEOUT_MS, () => {
    link.stdout.close();
    link.stderr.close();
  });
  const [stdout, stderr] = await output;
  cancel();
  command.signal?.throwIfAborted();
  if (exit.problem !== undefined) {
    const message = `${command.argv[0]} could not be started in the sandbox: ${exit.problem}.`;
    throw new CellaError('TOOL_FAILED', message, { details: { problem: exit.problem } });
  }
  if (exit.environmentEnded !== undefined) {
    const message = `${command.argv[0]} ended with the sandbox that it ran in: ${exit.environmentEnded}.`;
    throw new CellaError('TOOL_FAILED', message);
  }
  return {
    stdout: stdout.kept,
    stderr: stderr.kept,
    stdoutCut: stdout.cut,
    stderrCut: stderr.cut,
    timedOut: timedOut(),
    exit,
  };
}

function collect(source: ByteSource, limit: number): Promise<{ kept: Buffer; cut: number }> {
  const parts: Buffer[] = [];
  let room = limit;
  let cut = 0;
  return new Promise((resolve) => {
    source.read(
      (chunk) => {
        const kept = chunk.subarray(0, room);
        // A chunk is valid during this call alone.
        if (kept.length > 0) parts.push(Buffer.from(kept));
        room -= kept.length;
        cut += chunk.length - kept.length;
        return true;
      },
      () => {
        source.close();
        resolve({ kept: Buffer.concat(parts), cut });
      },
    );
  });
}
