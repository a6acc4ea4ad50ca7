/** A runner that has ended is not waited for because another process in its place holds its output open. */

import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { Environment, Process } from './environment.ts';
import { runRunnerCommand } from './runner-command.ts';

test('the end of the runner is told although its output stays open, after what it has written', async () => {
  const stdout = new PassThrough();
  const exit = Promise.withResolvers<{ code: number }>();
  const execution: Process = {
    stdin: undefined,
    stdout,
    stderr: new PassThrough(),
    exited: exit.promise,
    kill: () => {},
  };
  const primitive = { exec: async () => execution } as unknown as Environment;
  const place = { argv: ['runner'], programDir: '/' };
  const lines = runRunnerCommand(primitive, place, {
    name: 'read-transcript',
    lines: [],
    says: z.object({ n: z.number() }),
  });
  stdout.write('{"n": 1}\n');
  expect(await lines.next()).toEqual({ value: { n: 1 }, done: false });
  exit.resolve({ code: 0 });
  stdout.write('{"n": 2}\n');
  expect(await lines.next()).toEqual({ value: { n: 2 }, done: false });
  expect(await lines.next()).toEqual({ value: undefined, done: true });
}, 10_000);
