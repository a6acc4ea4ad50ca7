/** Runs a program in a kernel host to its end, with a timeout and bounded output. */

import { Readable } from 'node:stream';
import type { ByteSource } from '../kernel/kernel-connection.ts';
import { finishProcess } from '../lib/run-process.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Command, CommandResult } from '../protocol/process.ts';
import type { KernelHost } from './kernel-host.ts';

export async function runToEnd(
  host: KernelHost,
  command: Command,
  packages: string | undefined,
): Promise<CommandResult> {
  command.signal?.throwIfAborted();
  const link = await host.exec({ argv: command.argv, env: command.env ?? {}, packages });
  const running = {
    stdout: toReadable(link.stdout),
    stderr: toReadable(link.stderr),
    exited: link.exited,
    kill: () => link.kill(),
    closeOutput: () => {
      link.stdout.close();
      link.stderr.close();
    },
  };
  const { exit, ...result } = await finishProcess(running, command);
  command.signal?.throwIfAborted();
  if (exit.problem !== undefined) {
    const message = `${command.argv[0]} could not be started in the sandbox: ${exit.problem}.`;
    throw new CellaError('TOOL_FAILED', message, { details: { problem: exit.problem } });
  }
  if (exit.environmentEnded !== undefined) {
    const message = `${command.argv[0]} ended with the sandbox that it ran in: ${exit.environmentEnded}.`;
    throw new CellaError('TOOL_FAILED', message);
  }
  return { ...result, exit };
}

export function toReadable(source: ByteSource): Readable {
  let begun = false;
  const stream: Readable = new Readable({
    read() {
      if (begun) return source.resume();
      begun = true;
      source.read(
        // A chunk is only valid during this call.
        (chunk) => stream.push(Buffer.from(chunk)),
        () => stream.push(null),
      );
    },
    destroy(error, done) {
      source.close();
      done(error);
    },
  });
  return stream;
}
