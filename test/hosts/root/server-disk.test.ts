/** The disk under a server: full, read-only, or ended by an error. Each has a disk of its own, in mounts of its own. */

import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { claudeProgram } from '../../../src/agents/claude/program.ts';
import {
  CheckedSession,
  codeOf,
  endAsItCan,
  endInOrder,
  newSession,
  pythonFlags,
  run,
} from '../../faults/server/checked-session.ts';
import { checkEndings, readLog } from '../../soak/log.ts';
import { Cella, launcher } from '../../support/cli/command.ts';
import { canHang, HangingDisk } from '../../support/processes/hanging-disk.ts';
import { overSocket } from '../../support/servers/followers.ts';
import { Served } from '../../support/servers/serve-process.ts';

const flags = [...pythonFlags, '--grace', '1'];

/** Runs what comes after it in mounts of its own, with a disk at a path. */
function withDisk(path: string, mount: string): string[] {
  return ['unshare', '--mount', 'sh', '-ec', `mount ${mount} '${path}'; chmod 711 '${path}'; exec "$@"`, 'sh'];
}

/** To the last byte. */
function fill(path: string): void {
  spawnSync('dd', ['if=/dev/zero', `of=${path}`, 'bs=64k'], { stdio: 'ignore' });
  spawnSync('dd', ['if=/dev/zero', `of=${path}.rest`, 'bs=512'], { stdio: 'ignore' });
}

test('while the disk is full, the server is not ready and says so, and it recovers when there is room', async () => {
  using cella = new Cella();
  const around = withDisk(cella.dataDir, '-t tmpfs -o size=48m none');
  await using served = await Served.start(cella, flags, { around });
  const id = await newSession(served);
  await run(served, id, 'kept = 1');
  let lastSeq = Number.POSITIVE_INFINITY;
  const followers = await Promise.all([1, 2].map(() => overSocket(served, id, ({ seq }) => seq >= lastSeq)));
  const filler = join(served.dataDir, 'filler');
  fill(filler);
  await expect.poll(() => codeOf(served.ask('GET /ready'))).toBe('STORAGE_FAILED');
  expect(await codeOf(served.ask(`POST /v1/sessions/${id}/save`))).not.toBe('INTERNAL');
  for (const path of [filler, `${filler}.rest`]) rmSync(path);
  await expect.poll(() => codeOf(served.ask('GET /ready'))).toBe('ok');
  await expect.poll(() => codeOf(run(served, id, 'kept = 2'))).toBe('ok');
  const log = await readLog(served, id);
  checkEndings(id, log);
  // Who followed all the time was told the same, without a gap.
  lastSeq = log.length + 1;
  await run(served, id, 'kept = 3');
  for (const { seen } of followers) {
    const seqs = (await seen).map(({ seq }) => seq);
    expect(seqs.length).toBeGreaterThanOrEqual(lastSeq);
    expect(seqs).toEqual(seqs.map((_, index) => index + 1));
  }
});

test('a server in the background ends with `serve stop` while its disk, with its log, is full', async () => {
  using cella = new Cella();
  // The mounts stay while this one lives.
  const [program = '', ...words] = withDisk(cella.dataDir, '-t tmpfs -o size=48m none');
  const holder = spawn(program, [...words, 'sleep', '600'], { stdio: 'ignore' });
  onTestFinished(() => void holder.kill('SIGKILL'));
  const around = ['nsenter', '--target', String(holder.pid), '--mount'];
  await expect
    .poll(() => spawnSync(around[0] ?? '', [...around.slice(1), 'mountpoint', '-q', cella.dataDir]).status)
    .toBe(0);
  const started = await cella.run(['serve', '--detach', '--port', '0', '--log-level', 'info', ...flags], { around });
  expect(started).toMatchObject({ code: 0 });
  const seen = join(`/proc/${holder.pid}/root`, cella.dataDir);
  fill(join(seen, 'filler'));
  // Its last page has room for a few lines more.
  const rest = ['if=/dev/zero', `of=${join(seen, 'daemon.log')}`, 'bs=1', 'count=8192', 'oflag=append', 'conv=notrunc'];
  spawnSync('dd', rest, { stdio: 'ignore' });
  const stopped = await cella.run(['serve', 'stop'], { around });
  expect(stopped).toMatchObject({ code: 0, out: expect.stringContaining('has ended') });
});

test('`serve stop` fails if the server could not save a session, and says why once', async () => {
  using cella = new Cella();
  const around = withDisk(cella.dataDir, '-t tmpfs -o size=48m none');
  const served = await Served.start(cella, flags, { around });
  const id = await newSession(served);
  await run(served, id, 'import os\nkept = os.urandom(60_000_000)'); // no save of it fits
  fill(join(served.dataDir, 'filler'));
  const inside = ['nsenter', '--target', String(served.pid), '--mount'];
  const stopped = await cella.run(['serve', 'stop'], { around: inside });
  const code = await served.started.ended;
  expect({ code, stopped }).toMatchObject({ code: 1, stopped: { code: 1, out: '' } });
  expect(stopped.err).toContain(`Process ${served.pid} has ended, but could not save everything: `);
  for (const { err } of [stopped, served.started]) {
    const [said = ''] = /^cella: .*$/m.exec(err) ?? [];
    expect(said).toContain(`Session ${id} (kept) could not be saved: `);
    for (const once of [/could not save everything/g, /the disk is full/g]) {
      expect(said.match(once), said).toHaveLength(1);
    }
  }
});

// The system refuses to remount a disk for reading alone while files are open for writing: this is how one becomes so.
test('a file system that shut down after an error is STORAGE_FAILED everywhere, and nothing acknowledged is lost', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cella-disk-'));
  const image = join(folder, 'image');
  writeFileSync(image, '');
  execFileSync('truncate', ['-s', '96M', image]);
  execFileSync('mkfs.ext4', ['-q', image]);
  using cella = new Cella();
  const around = withDisk(cella.dataDir, `-o loop ${image}`);
  try {
    const served = await Served.start(cella, flags, { around });
    const id = await newSession(served);
    await run(served, id, 'kept = 1');
    await served.ask(`POST /v1/sessions/${id}/save`);
    execFileSync('nsenter', ['--target', String(served.pid), '--mount', 'mount', '-o', 'remount,abort', cella.dataDir]);
    await expect.poll(() => codeOf(served.ask('GET /ready'))).toBe('STORAGE_FAILED');
    const file = `PUT /v1/sessions/${id}/files/content?path=a.txt`;
    expect(await codeOf(served.ask(file, { body: 'text' }))).toBe('STORAGE_FAILED');
    await endAsItCan(served);
    spawnSync('e2fsck', ['-fy', image], { stdio: 'ignore' });
    await using again = await Served.start(cella, flags, { around });
    expect(await run(again, id, 'kept')).toMatchObject({ value: 1 });
    checkEndings(id, await readLog(again, id));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('workspaces and saves on a disk that becomes read-only are STORAGE_FAILED, and work again when it is writable', async () => {
  using cella = new Cella();
  const mounts = ['agents', 'checkpoints'].map((name) => join(cella.dataDir, name));
  const script = mounts
    .map((path) => `mkdir -p '${path}'; mount -t tmpfs -o size=64m,mode=711 none '${path}'`)
    .join('; ');
  const around = ['unshare', '--mount', 'sh', '-ec', `${script}; exec "$@"`, 'sh'];
  const served = await Served.start(cella, flags, { around });
  const session = await CheckedSession.of(served, 'kept');
  await session.run('kept = 1');
  await session.call('POST', '/hibernate');
  const remount = (how: 'ro' | 'rw') => {
    for (const path of mounts) {
      const inside = ['--target', String(served.pid), '--mount', 'mount', '-o', `remount,${how}`, path];
      execFileSync('nsenter', inside);
    }
  };
  remount('ro');
  const file = `PUT /v1/sessions/${session.id}/files/content?path=a.txt`;
  expect(await codeOf(served.ask(file, { body: 'text' }))).toBe('STORAGE_FAILED');
  await session.run('kept = 2');
  expect(await session.call('POST', '/save')).toMatchObject({ code: 'STORAGE_FAILED' });
  remount('rw');
  expect(await codeOf(served.ask(file, { body: 'text' }))).toBe('ok');
  await expect.poll(() => session.run('kept = 3')).toMatchObject({ status: 'ok' });
  expect(await codeOf(served.ask(`POST /v1/sessions/${session.id}/save`))).toBe('ok');
  await session.check();
  await endInOrder(served);
});

// Frozen, ext4 lets whoever writes wait without end, and not even SIGKILL ends them: as a disk that does not answer.
test('saves on a disk that hangs again and again are slow, and nothing acknowledged is lost', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cella-disk-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const image = join(folder, 'image');
  execFileSync('truncate', ['-s', '128M', image]);
  execFileSync('mkfs.ext4', ['-q', image]);
  using cella = new Cella();
  const served = await Served.start(cella, flags, { around: withDisk(cella.dataDir, `-o loop ${image}`) });
  const sessions = await Promise.all(Array.from({ length: 20 }, (_, n) => CheckedSession.of(served, `slow-${n}`)));
  await Promise.all(sessions.map((session, n) => session.run(`kept = ${n}`)));
  const inside = ['--target', String(served.pid), '--mount', 'sh', '-c'];
  const script = 'for n in $(seq 12); do fsfreeze -f "$1"; sleep 0.3; fsfreeze -u "$1"; sleep 0.05; done';
  const stutter = once(spawn('nsenter', [...inside, script, 'sh', cella.dataDir], { stdio: 'ignore' }), 'exit');
  await Promise.all(
    sessions.map(async (session, n) => {
      expect(await session.call('POST', '/hibernate')).not.toHaveProperty('code');
      expect(await session.run('kept')).toMatchObject({ value: n });
    }),
  );
  expect(await stutter).toEqual([0, null]);
  for (const session of sessions) await session.check();
  await endInOrder(served);
});

test.skipIf(!canHang)('a folder on a disk that hangs blocks only its own sessions', async () => {
  await using disk = await HangingDisk.mount();
  using cella = new Cella();
  const served = await Served.start(cella, flags);
  const neighbour = await CheckedSession.of(served, 'neighbour');
  await neighbour.run('kept = 1');
  const open = async (agentKey: string) => {
    const body = { agentKey, cwd: disk.path, sandbox: 'off' };
    return new CheckedSession(served, (await served.ask<{ id: string }>('POST /v1/sessions', { body })).id);
  };
  const [awake, asleep] = [await open('awake'), await open('asleep')];
  await awake.run('kept = 2');
  await disk.hang();
  // As many as one user may have at a time.
  const files = await Promise.all(Array.from({ length: 4 }, () => awake.call('GET', '/files')));
  for (const listing of files) expect(listing).toEqual({ code: 'STORAGE_FAILED' });
  expect(await neighbour.call('GET', '/files')).toMatchObject({ files: [] });
  expect(await codeOf(open('fresh'))).toBe('STORAGE_FAILED');
  expect(await asleep.run('1')).toMatchObject({ code: 'STORAGE_FAILED' });
  expect(await neighbour.run('kept')).toMatchObject({ value: 1 });
  expect(await neighbour.call('POST', '/save')).not.toHaveProperty('code');
  await disk.answer();
  await expect.poll(() => awake.call('GET', '/files')).toMatchObject({ files: [] });
  expect(await asleep.run('6 * 7')).toMatchObject({ value: 42 });
  expect(await awake.run('kept')).toMatchObject({ value: 2 });
  for (const session of [neighbour, awake, asleep]) await session.check();
  await endInOrder(served);
});

test.skipIf(!canHang)(
  'folders that hang do not affect sessions in one that answers, even of the same user',
  async () => {
    await using mounted = new AsyncDisposableStack();
    const disks: HangingDisk[] = [];
    for (let count = 0; count < 6; count++) disks.push(mounted.use(await HangingDisk.mount()));
    using cella = new Cella();
    const served = await Served.start(cella, flags);
    const open = async ({ path }: HangingDisk) => {
      const body = { agentKey: path, cwd: path, sandbox: 'off' };
      return new CheckedSession(served, (await served.ask<{ id: string }>('POST /v1/sessions', { body })).id);
    };
    const [working, ...others] = await Promise.all(disks.map(open));
    await Promise.all(others.map((session) => session.run('1')));
    await Promise.all(disks.slice(1).map((disk) => disk.hang()));
    const listings = await Promise.all(others.map((session) => session.call('GET', '/files')));
    for (const listing of listings) expect(listing).toEqual({ code: 'STORAGE_FAILED' });
    expect(await working?.run('6 * 7')).toMatchObject({ value: 42 });
    expect(await working?.call('GET', '/files')).toMatchObject({ files: [] });
    await Promise.all(disks.map((disk) => disk.answer()));
    for (const session of others) {
      await expect.poll(() => session.call('GET', '/files')).toMatchObject({ files: [] });
      await session.check();
    }
    await endInOrder(served);
  },
);

test.skipIf(!canHang)('a folder that hangs under watches, forks and agents delays nobody else', async () => {
  await using disk = await HangingDisk.mount();
  using cella = new Cella();
  const program = join(cella.dataDir, 'programs', 'claude', claudeProgram.version, 'node_modules');
  for (const [part = ''] of claudeProgram.parts) mkdirSync(join(program, part), { recursive: true });
  const served = await Served.start(cella, flags);
  await served.ask('PUT /v1/credentials/anthropic', { body: { value: 'sk-ant-0123456789' } });
  const neighbour = await CheckedSession.of(served, 'neighbour');
  const watches: Promise<string>[] = [];
  const open = async (agentKey: string) => {
    const body = { agentKey, cwd: disk.path, sandbox: 'off' };
    const session = new CheckedSession(served, (await served.ask<{ id: string }>('POST /v1/sessions', { body })).id);
    await session.run('1');
    const path = new URL(`/v1/sessions/${session.id}/files/watch?path=`, served.url);
    const headers = { authorization: `Bearer ${served.token}` };
    const begun = await Promise.all(Array.from({ length: 20 }, () => fetch(path, { headers })));
    watches.push(...begun.map((answer) => answer.text()));
    return session;
  };
  // Together they watch more often than the server has threads.
  const [one, other] = [await open('one'), await open('other')];
  await disk.hang();
  let over = false;
  const fork = one.call('POST', '/fork', { agentKey: 'fork' });
  const turn = other.call<{ error?: { code: string } }>('POST', '/prompt', { prompt: 'Go.' });
  // Each watch looks once a second whether its folder is still there.
  const ended = Promise.allSettled([fork, turn, ...watches]).finally(() => {
    over = true;
  });
  for (let round = 0; !over; round++) {
    await neighbour.run(`kept = ${round}`);
    expect(await neighbour.call('POST', '/save')).not.toHaveProperty('code');
  }
  await ended;
  expect(await fork).toEqual({ code: 'STORAGE_FAILED' });
  expect(await turn).toMatchObject({ error: { code: 'STORAGE_FAILED' } });
  await disk.answer();
  await neighbour.check();
  await endInOrder(served);
});

/** A user that has no other processes, if that user can read this checkout. */
const user = String(randomInt(70_000, 2_000_000));
const asUser = ['setpriv', '--reuid', user, '--regid', user, '--clear-groups'];
const userCanRun = spawnSync(asUser[0] ?? '', [...asUser.slice(1), 'test', '-r', launcher]).status === 0;

test.skipIf(!canHang || !userCanRun)(
  'a folder that hangs delays no kernel of others on an ordinary user’s host, and its own session gets an error',
  async () => {
    await using disk = await HangingDisk.mount();
    using cella = new Cella();
    for (const folder of [cella.dataDir, cella.temporary]) execFileSync('chown', [`${user}:${user}`, folder]);
    const served = await Served.start(cella, flags, { around: asUser });
    const neighbour = await CheckedSession.of(served, 'neighbour');
    await neighbour.run('kept = 1');
    const body = { agentKey: 'stuck', cwd: disk.path };
    const stuck = new CheckedSession(served, (await served.ask<{ id: string }>('POST /v1/sessions', { body })).id);
    await stuck.run('kept = 2');
    await disk.hang();
    expect(await stuck.run("open('a', 'w')", { timeoutMs: 100 })).toMatchObject({ status: 'timeout' });
    expect(await stuck.run('1')).toMatchObject({ code: 'STORAGE_FAILED' });
    expect(await stuck.call('POST', '/restart')).toMatchObject({ code: 'STORAGE_FAILED' });
    expect(await neighbour.call('POST', '/restart')).not.toHaveProperty('code');
    await disk.answer();
    await expect.poll(() => stuck.run('6 * 7')).toMatchObject({ value: 42 });
    await stuck.call('POST', '/hibernate');
    // The server finds that the folder answers, and whoever opens it for the sandbox does not.
    await disk.hang({ after: 1 });
    const answer = stuck.run('1').then((result) => ({ of: 'stuck', result }));
    const others = neighbour.call('POST', '/restart').then((result) => ({ of: 'neighbour', result }));
    expect(await Promise.race([answer, others])).toMatchObject({ of: 'neighbour' });
    expect((await others).result).not.toHaveProperty('code');
    expect((await answer).result).toMatchObject({ code: 'STORAGE_FAILED' });
    expect(await neighbour.run('6 * 7')).toMatchObject({ value: 42 });
    await disk.answer();
    await expect.poll(() => stuck.run('6 * 7')).toMatchObject({ value: 42 });
    for (const session of [neighbour, stuck]) await session.check();
    await endInOrder(served);
  },
  120_000,
);
