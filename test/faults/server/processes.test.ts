/** Processes of a server that are stopped or killed: what waits for them is answered, others go on, and the server ends. */

import { rmSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readLog } from '../../soak/log.ts';
import { Cella } from '../../support/cli/command.ts';
import { descendants, templatesOf } from '../../support/processes/processes.ts';
import { Served } from '../../support/servers/serve-process.ts';
import { CheckedSession, pythonFlags, type Result } from './checked-session.ts';

const flags = [...pythonFlags, '--grace', '1', '--log-level', 'info'];

/** A cell that runs until somebody ends it, and its answer. */
async function busy(
  session: CheckedSession,
  more: Record<string, unknown> = {},
): Promise<{ readonly answer: Promise<Result> }> {
  const before = (await readLog(session.served, session.id)).length;
  const answer = session.run('while True: pass', more);
  await expect
    .poll(async () =>
      (await readLog(session.served, session.id, before)).some(({ type }) => type === 'execution_started'),
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

test('a sandbox whose pid 1 is stopped ends by a timeout, an interrupt, a restart and a deletion', async () => {
  using cella = new Cella();
  const served = await Served.start(cella, flags);
  const neighbour = await CheckedSession.of(served, 'neighbour');
  await neighbour.run('kept = 1');
  const rows: readonly (readonly [how: string, end: (session: CheckedSession) => Promise<unknown>])[] = [
    ['timeout', async () => {}],
    ['interrupt', (session) => session.call('POST', '/interrupt')],
    ['restart', (session) => session.call('POST', '/restart')],
    ['deletion', (session) => session.call('DELETE', '')],
  ];
  await Promise.all(
    rows.map(async ([how, end]) => {
      const session = await CheckedSession.of(served, how);
      await session.run('kept = 2');
      await session.call('POST', '/save');
      const { supervisor } = await session.processes();
      const { answer } = await busy(session, how === 'timeout' ? { timeoutMs: 1000 } : {});
      process.kill(supervisor, 'SIGSTOP');
      const [, result] = await Promise.all([end(session), answer]);
      if (how === 'deletion') return;
      expect(result).toMatchObject({ death: { code: 'KERNEL_DIED' } });
      // A restart begins with nothing; all else with what was saved.
      expect(await session.run(how === 'restart' ? '2' : 'kept')).toMatchObject({ value: 2 });
      await session.check();
    }),
  );
  expect(await neighbour.run('kept')).toMatchObject({ value: 1 });
  await ends(served, pidsOf(served));
});

test('a server shuts down cleanly while a pid 1 and a kernel are stopped', async () => {
  using cella = new Cella();
  const served = await Served.start(cella, flags);
  const sessions = [
    await CheckedSession.of(served, 'pid-1'),
    await CheckedSession.of(served, 'kernel'),
    await CheckedSession.of(served, 'idle'),
  ];
  const [first, second, third] = sessions as [CheckedSession, CheckedSession, CheckedSession];
  const stopped = [(await first.processes()).supervisor, (await second.processes()).kernel];
  stopped.push((await third.processes()).supervisor);
  const cells = [await busy(first), await busy(second)];
  for (const pid of stopped) process.kill(pid, 'SIGSTOP');
  await ends(served, pidsOf(served));
  for (const { answer } of cells) expect(['died', 'interrupted']).toContain((await answer).status);
  await using again = await Served.start(cella, flags);
  for (const session of sessions) await session.check(again);
});

test('a server shuts down in time while an idle kernel is stopped', async () => {
  using cella = new Cella();
  const served = await Served.start(cella, flags);
  const session = await CheckedSession.of(served, 'idle');
  const { kernel } = await session.processes();
  await session.run('lost = 1');
  const left = pidsOf(served);
  process.kill(kernel, 'SIGSTOP');
  const began = performance.now();
  await ends(served, left);
  expect(performance.now() - began).toBeLessThan(20_000);
  await using again = await Served.start(cella, flags);
  await session.check(again);
}, 120_000);

test('a stopped kernel is ended by an interrupt, after its grace period', async () => {
  using cella = new Cella();
  await using served = await Served.start(cella, flags);
  const session = await CheckedSession.of(served, 'kernel');
  const { kernel } = await session.processes();
  const { answer } = await busy(session);
  process.kill(kernel, 'SIGSTOP');
  await session.call('POST', '/interrupt');
  expect(await answer).toMatchObject({ status: 'interrupted', death: { code: 'KERNEL_DIED' } });
  expect(await session.run('6 * 7')).toMatchObject({ value: 42 });
  await session.check();
});

test('a stopped idle kernel is given up: cells, saves, hibernation and deletion end in time', async () => {
  using cella = new Cella();
  await using served = await Served.start(cella, flags);
  const neighbour = await CheckedSession.of(served, 'neighbour');
  await neighbour.run('kept = 1');
  const rows: readonly (readonly [
    how: string,
    limitMs: number,
    call: (session: CheckedSession) => Promise<unknown>,
  ])[] = [
    ['a cell', 10_000, (session) => session.run('kept', { timeoutMs: 1000 })],
    ['variables', 20_000, (session) => session.call('GET', '/variables')],
    ['save', 20_000, (session) => session.call('POST', '/save')],
    ['checkpoint', 20_000, (session) => session.call('POST', '/checkpoints', { durable: true })],
    ['hibernate', 20_000, (session) => session.call('POST', '/hibernate')],
    ['deletion', 10_000, (session) => session.call('DELETE', '')],
  ];
  await Promise.all(
    rows.map(async ([how, limitMs, call]) => {
      const session = await CheckedSession.of(served, how);
      await session.run('kept = 2');
      await session.call('POST', '/save');
      const { kernel } = await session.processes();
      await session.run('lost = 3');
      process.kill(kernel, 'SIGSTOP');
      const began = performance.now();
      await call(session);
      const tookMs = performance.now() - began;
      expect(tookMs, how).toBeLessThan(limitMs);
      if (how === 'deletion') return;
      // Since the last save nothing is left, and the result says so.
      const notice = how === 'hibernate' ? 'resumed' : 'recovered';
      expect(await session.run('[kept, "lost" in dir()]')).toMatchObject({ value: [2, false], [notice]: {} });
      await session.check();
    }),
  );
  expect(await neighbour.run('kept')).toMatchObject({ value: 1 });
  await ends(served, pidsOf(served));
}, 120_000);

test.each([
  ['stops itself', 'import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass'],
  [
    'ignores every signal that it can',
    'import signal\nfor n in signal.valid_signals() - {9, 19}: signal.signal(n, signal.SIG_IGN)\nwhile True: pass',
  ],
])('a kernel that %s is ended by its timeout', async (_what, code) => {
  using cella = new Cella();
  await using served = await Served.start(cella, flags);
  const session = await CheckedSession.of(served, 'kernel');
  expect(await session.run(code, { timeoutMs: 1000 })).toMatchObject({ status: 'timeout' });
  expect(await session.run('6 * 7')).toMatchObject({ value: 42 });
  await session.check();
});

test('while the template is stopped, sessions start, resume and continue, and the server shuts down', async () => {
  using cella = new Cella();
  const served = await Served.start(cella, flags);
  const asleep = await CheckedSession.of(served, 'asleep');
  await asleep.run('kept = 1');
  await asleep.call('POST', '/hibernate');
  const awake = await CheckedSession.of(served, 'awake');
  await awake.run('kept = 2');
  const [template] = templatesOf(served.pid);
  process.kill(template?.pid ?? 0, 'SIGSTOP');
  expect(await awake.run('kept = 3')).toMatchObject({ status: 'ok' });
  expect(await awake.run('kept')).toMatchObject({ value: 3 });
  expect(await asleep.run('kept')).toMatchObject({ value: 1 });
  const fresh = await CheckedSession.of(served, 'fresh');
  expect(await fresh.run('6 * 7')).toMatchObject({ value: 42 });
  for (const session of [asleep, awake, fresh]) await session.check();
  await ends(served, [template?.pid ?? 0, ...pidsOf(served)]);
  await using again = await Served.start(cella, flags);
  for (const session of [asleep, awake, fresh]) await session.check(again);
});

test.each([
  ['killed', ({ pid }: { pid: number }) => process.kill(pid, 'SIGKILL')],
  ['robbed of its folder', ({ folder }: { folder: string }) => rmSync(folder, { recursive: true, force: true })],
])('a template that was %s is replaced, and sessions go on with what was saved', async (_how, harm) => {
  using cella = new Cella();
  await using served = await Served.start(cella, flags);
  const session = await CheckedSession.of(served, 'saved');
  await session.run('kept = 1');
  await session.call('POST', '/save');
  const [template] = templatesOf(served.pid);
  if (!template) throw new Error('there is no template');
  harm(template);
  // Its kernel ends with the template: a cell that comes before the server knows is told so, and is not run again.
  await expect.poll(() => session.run('kept')).toMatchObject({ value: 1 });
  expect(await (await CheckedSession.of(served, 'fresh')).run('6 * 7')).toMatchObject({ value: 42 });
  await session.check();
});

test.each([256, 512])(
  'a limit of %i open files is named, at the start and by sessions that need a kernel',
  async (limit) => {
    using cella = new Cella();
    const around = ['sh', '-c', `ulimit -n ${limit}; exec "$@"`, 'sh'];
    await using served = await Served.start(cella, flags, { around });
    const { id } = await served.ask<{ id: string }>('POST /v1/sessions', { body: { agentKey: 'few' } });
    const failure: unknown = await served
      .ask(`POST /v1/sessions/${id}/execute`, { body: { code: '1' } })
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'SANDBOX_UNAVAILABLE', message: expect.stringContaining(`${limit} files`) });
    await expect.poll(() => served.started.err).toContain(`The limit of open files is ${limit}`);
    const { out, code } = await cella.run(['doctor', '--json'], { around });
    expect(code).toBe(1);
    expect(JSON.parse(out)).toMatchObject({
      ok: false,
      warnings: [expect.stringContaining(`The limit of open files is ${limit}`)],
    });
  },
);
