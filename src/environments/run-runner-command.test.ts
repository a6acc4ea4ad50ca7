import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { Environment, Process } from './environment.ts';
import { runRunnerCommand } from './run-runner-command.ts';

function runner() {
  const stdout = new PassThrough();
  const exit = Promise.withResolvers<{ code: number }>();
  const execution: Process = {
    stdin: undefined,
    stdout,
    stderr: new PassThrough(),
    exited: exit.promise,
    kill: () => {},
  };
  const environment = { exec: async () => execution } as unknown as Environment;
  const runner = { argv: ['runner'], programDir: '/' };
  const lines = runRunnerCommand(environment, runner, {
    name: 'read-transcript',
    lines: [],
    schema: z.object({ n: z.number() }),
  });
  return { stdout, exit, lines };
}

test.each(['', '\ufeff'])('a line that is expensive to parse ends it, also after "%s"', async (mark) => {
  const { stdout, exit, lines } = runner();
  stdout.end(`${mark}[${'[],'.repeat(200_000)}[]]\n`);
  exit.resolve({ code: 0 });
  await expect(lines.next()).rejects.toMatchObject({
    code: 'RUNNER_PROTOCOL',
    message: 'The runner wrote a line that has too many parts or levels.',
  });
});
