/** Runs the command that the runner was called with, and kills all processes it started when it ends. */

import { finished } from 'node:stream/promises';
import type { AgentLoader } from './agent-turn.ts';
import { claimStreams, killDescendants } from './own-process.ts';

export async function runRunner(argv: readonly string[], agents: AgentLoader): Promise<never> {
  const streams = claimStreams();
  process.once('exit', () => killDescendants());
  // Without a handler, Node opens its debugger on a port that every local user can connect to.
  process.on('SIGUSR1', () => {});
  const stop = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, () => stop.abort());
  // Nobody reads the output: stop.
  streams.output.once('error', () => stop.abort());
  const [name, ...rest] = argv;
  const code =
    name === 'serve' && rest.length === 0
      ? await (await import('./rpc-server.ts')).serveRpc(streams, agents, stop.signal)
      : await (await import('./stdio-commands.ts')).runCommand(name, rest, streams, agents, stop.signal);
  streams.output.end();
  // Exit also if the rest cannot be written.
  await finished(streams.output).catch(() => {});
  process.exit(code);
}
