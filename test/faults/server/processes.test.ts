/** Processes of a server that are stopped or killed: what waits for them is answered, others go on, and the server ends. */

import { rmSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readLog } from '../../soak/log.ts';
import { Cella } from '../../support/cli/command.ts';
import { descendants, templatesOf } from '../../support/processes/processes.ts';
import { Served } from '../../support/servers/serve-process.ts';
import { pythonFlags, type Result, Tenant } from './tenant.ts';

const flags = [...pythonFlags, '--grace', '1', '--log-level', 'info'];

/** A cell that runs until somebody ends it, and its answer. */
async function busy(tenant: Tenant, more: Record<string, unknown> = {}): Promise<{ readonly answer: Promise<Result> }> {
  const before = (await readLog(tenant.served, tenant.id)).length;
  const answer = tenant.run('while True: pass', more);
  await expect
    .poll(async () =>
      (await readLog(tenant.served, tenant.id, before)).some(({ type }) => type === 'execution_started'),
    )
    .toBe(true);
  return { answer };
}

/** What it had started is gone with it. */
async function ends(served: Served, left: readonly number[]): Promise<void> {
  served.started.child.kill('SIGTERM');
  expect(await served.started.ended).toBe(0);
  const alive = () => descendants(1).filter(({ pid }) => left.includes(pid));
  await expect.poll(alive).toEqual([]);
}

const pidsOf = (served: Served) => descendants(served.pid).map(({ pid }) => pid);

test('a sandbox whose pid 1 was stopped is ended by a timeout, an interrupt, a restart and a deletion', async () => {
  using cella = new Cella();
  const served = await Served.start(cella, flags);
  const neighbour = await Tenant.of(served, 'neighbour');
  await neighbour.run('kept = 1');
  const rows: readonly (readonly [how: string, end: (tenant: Tenant) => Promise<unknown>])[] = [
    ['timeout', async () => {}],
    ['interrupt', (tenant) => tenant.call('POST', '/interrupt')],
    ['restart', (tenant) => tenant.call('POST', '/restart')],
    ['deletion', (tenant) => tenant.call('DELETE', '')],
  ];
  await Promise.all(
    rows.map(async ([how, end]) => {
      const tenant = await Tenant.of(served, how);
      await tenant.run('kept = 2');
      await tenant.call('POST', '/save');
      const { supervisor } = await tenant.processes();
      const { answer } = await busy(tenant, how === 'timeout' ? { timeoutMs: 1000 } : {});
      process.kill(supervisor, 'SIGSTOP');
      const [, result] = await Promise.all([end(tenant), answer]);
      if (how === 'deletion') return;
      expect(result).toMatchObject({ death: { code: 'KERNEL_DIED' } });
      // A restart begins with nothing; all else with what was saved.
      expect(await tenant.run(how === 'restart' ? '2' : 'kept')).toMatchObject({ value: 2 });
      await tenant.check();
    }),
  );
  expect(await neighbour.run('kept')).toMatchObject({ value: 1 });
  await ends(served, pidsOf(served));
});

test('a server ends in good order while a pid 1 and a kernel of its sandboxes are stopped', async () => {
  using cella = new Cella();
  const served = await Served.start(cella, flags);
  const tenants = [
    await Tenant.of(served, 'pid-1'),
    await Tenant.of(served, 'kernel'),
    await Tenant.of(served, 'idle'),
  ];
  const [first, second, third] = tenants as [Tenant, Tenant, Tenant];
  const stopped = [(await first.processes()).supervisor, (await second.processes()).kernel];
  stopped.push((await third.processes()).supervisor);
  const cells = [await busy(first), await busy(second)];
  for (const pid of stopped) process.kill(pid, 'SIGSTOP');
  await ends(served, pidsOf(served));
  for (const { answer } of cells) expect(['died', 'interrupted']).toContain((await answer).status);
  await using again = await Served.start(cella, flags);
  for (const tenant of tenants) await tenant.check(again);
});

test('a kernel that was stopped is ended by an interrupt, after its grace', async () => {
  using cella = new Cella();
  await using served = await Served.start(cella, flags);
  const tenant = await Tenant.of(served, 'kernel');
  const { kernel } = await tenant.processes();
  const { answer } = await busy(tenant);
  process.kill(kernel, 'SIGSTOP');
  await tenant.call('POST', '/interrupt');
  expect(await answer).toMatchObject({ status: 'interrupted', death: { code: 'KERNEL_DIED' } });
  expect(await tenant.run('6 * 7')).toMatchObject({ value: 42 });
  await tenant.check();
});

test.each([
  ['stops itself', 'import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass'],
  [
    'ignores every signal that it can',
    'import signal\nfor n in signal.valid_signals() - {9, 19}: signal.signal(n, signal.SIG_IGN)\nwhile True: pass',
  ],
])('a kernel that %s is ended by its timeout', async (_what, code) => {
  using cella = new Cella();
  await using served = await Served.start(cella, flags);
  const tenant = await Tenant.of(served, 'kernel');
  expect(await tenant.run(code, { timeoutMs: 1000 })).toMatchObject({ status: 'timeout' });
  expect(await tenant.run('6 * 7')).toMatchObject({ value: 42 });
  await tenant.check();
});

test('while the template is stopped sessions start, wake and go on, and the server ends', async () => {
  using cella = new Cella();
  const served = await Served.start(cella, flags);
  const asleep = await Tenant.of(served, 'asleep');
  await asleep.run('kept = 1');
  await asleep.call('POST', '/hibernate');
  const awake = await Tenant.of(served, 'awake');
  await awake.run('kept = 2');
  const [template] = templatesOf(served.pid);
  process.kill(template?.pid ?? 0, 'SIGSTOP');
  expect(await awake.run('kept = 3')).toMatchObject({ status: 'ok' });
  expect(await awake.run('kept')).toMatchObject({ value: 3 });
  expect(await asleep.run('kept')).toMatchObject({ value: 1 });
  const fresh = await Tenant.of(served, 'fresh');
  expect(await fresh.run('6 * 7')).toMatchObject({ value: 42 });
  for (const tenant of [asleep, awake, fresh]) await tenant.check();
  await ends(served, [template?.pid ?? 0, ...pidsOf(served)]);
  await using again = await Served.start(cella, flags);
  for (const tenant of [asleep, awake, fresh]) await tenant.check(again);
});

test.each([
  ['killed', ({ pid }: { pid: number }) => process.kill(pid, 'SIGKILL')],
  ['robbed of its folder', ({ folder }: { folder: string }) => rmSync(folder, { recursive: true, force: true })],
])('a template that was %s is replaced, and sessions go on with what was saved', async (_how, harm) => {
  using cella = new Cella();
  await using served = await Served.start(cella, flags);
  const tenant = await Tenant.of(served, 'saved');
  await tenant.run('kept = 1');
  await tenant.call('POST', '/save');
  const [template] = templatesOf(served.pid);
  if (!template) throw new Error('there is no template');
  harm(template);
  // Its kernel ends with the template: a cell that comes before the server knows is told so, and is not run again.
  await expect.poll(() => tenant.run('kept')).toMatchObject({ value: 1 });
  expect(await (await Tenant.of(served, 'fresh')).run('6 * 7')).toMatchObject({ value: 42 });
  await tenant.check();
});

test.each([256, 512])(
  'a limit of %i open files is named, at the start and by whoever starts a kernel',
  async (limit) => {
    using cella = new Cella();
    const around = ['sh', '-c', `ulimit -n ${limit}; exec "$@"`, 'sh'];
    await using served = await Served.start(cella, flags, { around });
    const { id } = await served.ask<{ id: string }>('POST /v1/sessions', { body: { agentKey: 'few' } });
    const failure: unknown = await served
      .ask(`POST /v1/sessions/${id}/execute`, { body: { code: '1' } })
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'SANDBOX_UNAVAILABLE', message: expect.stringContaining(`${limit} files`) });
    await expect.poll(() => served.started.err).toContain(`Only ${limit} files may be open here`);
    const { out, code } = await cella.run(['doctor', '--json'], { around });
    expect(code).toBe(1);
    expect(JSON.parse(out)).toMatchObject({ ok: false, warnings: [expect.stringContaining(`Only ${limit} files`)] });
  },
);
