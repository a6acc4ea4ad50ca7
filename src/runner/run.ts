/** Which command the runner was called with, and its end: nothing that came of it outlives it. */

import { finished } from 'node:stream/promises';
import { CellaError } from '../protocol/errors.ts';
import type { AgentLoader } from './agent-turn.ts';
import { killDescendants } from './descendants.ts';
import { claimStreams, type RunnerStreams } from './runner-process.ts';
import { JsonOutput, readJson, type StdioCommand } from './stdio-commands.ts';

const commands: Readonly<Record<string, () => Promise<StdioCommand>>> = {
  'setup-session': async () => (await import('./stdio-commands.ts')).setupSession,
  'execute-query': async () => (await import('./stdio-commands.ts')).executeQuery,
  'read-transcript': async () => (await import('./stdio-commands.ts')).readTranscript,
};

export async function run(argv: readonly string[], agents: AgentLoader): Promise<never> {
  const streams = claimStreams();
  process.once('exit', () => killDescendants());
  // Node would open its debugger at this signal, on a port that every local user can connect to.
  process.on('SIGUSR1', () => {});
  const stop = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, () => stop.abort());
  // Nobody reads any more: there is nobody left to work for.
  streams.output.once('error', () => stop.abort());
  const [name, ...rest] = argv;
  const code =
    name === 'serve' && rest.length === 0
      ? await (await import('./rpc-server.ts')).serve(streams, agents, stop.signal)
      : await runCommand(name, rest, streams, agents, stop.signal);
  streams.output.end();
  // What cannot be written any more is no reason to stay.
  await finished(streams.output).catch(() => {});
  process.exit(code);
}

async function runCommand(
  name: string | undefined,
  rest: readonly string[],
  { input, output: stream }: RunnerStreams,
  agents: AgentLoader,
  stop: AbortSignal,
): Promise<number> {
  const output = new JsonOutput(stream);
  const told = () => input.destroy(new CellaError('ABORTED', 'The runner was told to end.'));
  stop.addEventListener('abort', told, { once: true });
  try {
    const load = name !== undefined && Object.hasOwn(commands, name) && rest.length === 0 ? commands[name] : undefined;
    if (!load) throw unknownCommand();
    const command = await load();
    return await command({ lines: readJson(input), output, agents, stop });
  } catch (error) {
    await output.fail(error).catch(() => {}); // nobody reads
    return 1;
  }
}

function unknownCommand(): CellaError {
  const known = [...Object.keys(commands), 'serve'].join(', ');
  return new CellaError('INVALID_REQUEST', 'The runner takes one command and no other arguments.', {
    advice: `Use one of these: ${known}. See docs/runner.md.`,
  });
}
