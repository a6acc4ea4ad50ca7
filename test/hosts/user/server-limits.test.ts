/** A server of an ordinary user who may have too few processes. Root has no such limit. */

import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { CheckedSession, endInOrder, pythonFlags } from '../../faults/server/checked-session.ts';
import { Cella } from '../../support/cli/command.ts';
import { templatesOf } from '../../support/processes/processes.ts';
import { Served } from '../../support/servers/serve-process.ts';

const flags = [...pythonFlags, '--grace', '1'];

test('too few processes for an ordinary user are named in the error, and kernels start when there are enough', async () => {
  using cella = new Cella();
  const served = await Served.start(cella, flags);
  const before = await CheckedSession.of(served, 'before');
  await before.run('kept = 1');
  await before.call('POST', '/save');
  const limit = (count: number) => execFileSync('prlimit', ['--pid', String(served.pid), `--nproc=${count}:`]);
  limit(1);
  for (const { pid } of templatesOf(served.pid)) process.kill(pid, 'SIGKILL');
  const fresh = await CheckedSession.of(served, 'fresh');
  const refusal: unknown = await served
    .ask(`POST /v1/sessions/${fresh.id}/execute`, { body: { code: '1' } })
    .catch((error: unknown) => error);
  expect(refusal).toMatchObject({ code: 'TEMPLATE_FAILED', message: expect.stringContaining('ulimit -u') });
  limit(4096);
  await expect.poll(() => fresh.run('6 * 7')).toMatchObject({ value: 42 });
  await expect.poll(() => before.run('kept')).toMatchObject({ value: 1 });
  for (const session of [before, fresh]) await session.check();
  await endInOrder(served);
});
