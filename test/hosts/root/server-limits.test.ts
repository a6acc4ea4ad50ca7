/** A server that its machine gives too little: processes, memory, room for temporary files, or a disk that answers. */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { CheckedSession, codeOf, endInOrder, pythonFlags } from '../../faults/server/checked-session.ts';
import { Cella } from '../../support/cli/command.ts';
import { ControlGroup } from '../../support/processes/control-groups.ts';
import { Served } from '../../support/servers/serve-process.ts';

const flags = [...pythonFlags, '--grace', '1'];

test('without room for another process, a kernel is a named error, and starts when there is room', async () => {
  using cella = new Cella();
  await using group = new ControlGroup('pids');
  const served = await Served.start(cella, flags, { around: group.around });
  const before = await CheckedSession.of(served, 'before');
  await before.run('kept = 1');
  group.limitProcesses(1);
  const fresh = await CheckedSession.of(served, 'fresh');
  const refusal: unknown = await served
    .ask(`POST /v1/sessions/${fresh.id}/execute`, { body: { code: '1' } })
    .catch((error: unknown) => error);
  // By whether a sandbox was begun ahead, it is the kernel or its sandbox that finds no room.
  const message = expect.stringMatching(/(fork|clone into new namespaces): Resource temporarily unavailable/);
  expect(refusal).toMatchObject({ code: 'SANDBOX_UNAVAILABLE', message });
  expect(await before.run('kept')).toMatchObject({ value: 1 });
  group.limitProcesses('max');
  await expect.poll(() => fresh.run('6 * 7')).toMatchObject({ value: 42 });
  for (const session of [before, fresh]) await session.check();
  await endInOrder(served);
});

test('a server at its memory limit continues, and loses nothing acknowledged', async () => {
  using cella = new Cella();
  await using group = new ControlGroup('memory');
  // On a disk: what lies in memory would count as the server's.
  const disk = mkdtempSync('/var/tmp/cella-memory-');
  onTestFinished(() => rmSync(disk, { recursive: true }));
  const script = `mount --bind '${disk}' '${cella.dataDir}'; exec "$@"`;
  const around = [...group.around, 'unshare', '--mount', 'sh', '-ec', script, 'sh'];
  group.limitMemory(400 * 1024 ** 2);
  const served = await Served.start(cella, flags, { around });
  const sessions = await Promise.all([1, 2, 3].map((n) => CheckedSession.of(served, `big-${n}`)));
  await Promise.all(
    sessions.map(async (session) => {
      for (let n = 0; n < 20; n++) expect(await session.run("'x' * 900_000")).toMatchObject({ status: 'ok' });
    }),
  );
  for (const session of sessions) await session.check();
  expect(group.outOfMemoryKills).toBe(0);
  await endInOrder(served);
});

// As one that waits for a disk that does not answer: not even SIGKILL ends it.
test('processes that survive SIGKILL delay neither callers nor others nor shutdown', async () => {
  using cella = new Cella();
  const group = new ControlGroup('freezer');
  onTestFinished(() => group[Symbol.asyncDispose]());
  const served = await Served.start(cella, flags);
  const [stuck, neighbour] = [await CheckedSession.of(served, 'stuck'), await CheckedSession.of(served, 'neighbour')];
  await stuck.run('kept = 1');
  await stuck.call('POST', '/save');
  await neighbour.run('kept = 2');
  const { kernel, supervisor } = await stuck.processes();
  for (const pid of [kernel, supervisor]) group.add(pid);
  await group.freeze();
  const [answer, beside] = await Promise.all([
    stuck.run('while True: pass', { timeoutMs: 1000 }),
    neighbour.run('kept'),
  ]);
  expect(answer).toMatchObject({ status: 'timeout', death: { code: 'KERNEL_DIED' } });
  expect(beside).toMatchObject({ value: 2 });
  expect(await stuck.run('kept')).toMatchObject({ value: 1 });
  await endInOrder(served);
  await group.thaw();
  const again = await Served.start(cella, flags);
  for (const session of [stuck, neighbour]) await session.check(again);
  await endInOrder(again);
});

test('a frozen kernel with unsaved variables does not delay shutdown, even after another one', async () => {
  using cella = new Cella();
  const [first, second] = [new ControlGroup('freezer'), new ControlGroup('freezer')];
  for (const group of [first, second]) onTestFinished(() => group[Symbol.asyncDispose]());
  const served = await Served.start(cella, flags);
  const freeze = async (session: CheckedSession, group: ControlGroup) => {
    const { kernel, supervisor } = await session.processes();
    for (const pid of [kernel, supervisor]) group.add(pid);
    await group.freeze();
  };
  const [stuck, idle] = [await CheckedSession.of(served, 'stuck'), await CheckedSession.of(served, 'idle')];
  await stuck.run('kept = 1');
  await stuck.call('POST', '/save');
  await freeze(stuck, first);
  expect(await stuck.run('1', { timeoutMs: 1000 })).toMatchObject({ death: { code: 'KERNEL_DIED' } });
  await first.thaw();
  await idle.run('kept = 2');
  await idle.call('POST', '/save');
  await idle.run('kept = 3');
  await freeze(idle, second);
  await endInOrder(served);
  await second.thaw();
  const again = await Served.start(cella, flags);
  for (const session of [stuck, idle]) await session.check(again);
  // What could not be saved is lost, and what was saved before is there.
  expect(await stuck.at(again).run('kept')).toMatchObject({ value: 1 });
  expect(await idle.at(again).run('kept')).toMatchObject({ value: 2 });
  await endInOrder(again);
});

test('a full folder for temporary files does not prevent kernels', async () => {
  using cella = new Cella();
  const script = `mount -t tmpfs -o size=16m,mode=1777 none '${cella.temporary}'; exec "$@"`;
  const around = ['unshare', '--mount', 'sh', '-ec', script, 'sh'];
  const served = await Served.start(cella, flags, { around });
  const before = await CheckedSession.of(served, 'before');
  await before.run('kept = 1');
  const filler = join(`/proc/${served.pid}/root`, cella.temporary, 'filler');
  spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=4k'], { stdio: 'ignore' });
  expect(await before.run('kept')).toMatchObject({ value: 1 });
  const fresh = await CheckedSession.of(served, 'fresh');
  expect(await fresh.run('6 * 7')).toMatchObject({ value: 42 });
  expect(await codeOf(served.ask('GET /ready'))).toBe('ok');
  for (const session of [before, fresh]) await session.check();
  await endInOrder(served);
});
