/** The disk under a server: full, read-only, or ended by an error. Each has a disk of its own, in mounts of its own. */

import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { codeOf, endAsItCan, endInOrder, newSession, pythonFlags, run, Tenant } from '../../faults/server/tenant.ts';
import { checkEndings, readLog } from '../../soak/log.ts';
import { Cella } from '../../support/cli/command.ts';
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

test('while the disk is full it is not ready and says so, and all goes on when there is room', async () => {
  using cella = new Cella();
  const around = withDisk(cella.dataDir, '-t tmpfs -o size=48m none');
  await using served = await Served.start(cella, flags, { around });
  const id = await newSession(served);
  await run(served, id, 'kept = 1');
  const filler = join(served.dataDir, 'filler');
  fill(filler);
  await expect.poll(() => codeOf(served.ask('GET /ready'))).toBe('STORAGE_FAILED');
  expect(await codeOf(served.ask(`POST /v1/sessions/${id}/save`))).not.toBe('INTERNAL');
  for (const path of [filler, `${filler}.rest`]) rmSync(path);
  await expect.poll(() => codeOf(served.ask('GET /ready'))).toBe('ok');
  await expect.poll(() => codeOf(run(served, id, 'kept = 2'))).toBe('ok');
  checkEndings(id, await readLog(served, id));
});

test('a server in the background ends by `serve stop` while its disk, with its log, is full', async () => {
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

test('`serve stop` fails where the server could not save what a session has, and says why once', async () => {
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
test('a file system that has ended after an error is STORAGE_FAILED everywhere, and nothing that was acknowledged is lost', async () => {
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

test('workspaces and saves on a disk that becomes read-only are STORAGE_FAILED, and all goes on when it can be written', async () => {
  using cella = new Cella();
  const mounts = ['agents', 'checkpoints'].map((name) => join(cella.dataDir, name));
  const script = mounts
    .map((path) => `mkdir -p '${path}'; mount -t tmpfs -o size=64m,mode=711 none '${path}'`)
    .join('; ');
  const around = ['unshare', '--mount', 'sh', '-ec', `${script}; exec "$@"`, 'sh'];
  const served = await Served.start(cella, flags, { around });
  const tenant = await Tenant.of(served, 'kept');
  await tenant.run('kept = 1');
  await tenant.call('POST', '/hibernate');
  const remount = (how: 'ro' | 'rw') => {
    for (const path of mounts) {
      const inside = ['--target', String(served.pid), '--mount', 'mount', '-o', `remount,${how}`, path];
      execFileSync('nsenter', inside);
    }
  };
  remount('ro');
  const file = `PUT /v1/sessions/${tenant.id}/files/content?path=a.txt`;
  expect(await codeOf(served.ask(file, { body: 'text' }))).toBe('STORAGE_FAILED');
  await tenant.run('kept = 2');
  expect(await tenant.call('POST', '/save')).toMatchObject({ code: 'STORAGE_FAILED' });
  remount('rw');
  expect(await codeOf(served.ask(file, { body: 'text' }))).toBe('ok');
  await expect.poll(() => tenant.run('kept = 3')).toMatchObject({ status: 'ok' });
  expect(await codeOf(served.ask(`POST /v1/sessions/${tenant.id}/save`))).toBe('ok');
  await tenant.check();
  await endInOrder(served);
});

// Frozen, ext4 lets whoever writes wait without end, and not even SIGKILL ends them: as a disk that does not answer.
test('saves on a disk that hangs again and again take their time, and nothing that was acknowledged is lost', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cella-disk-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const image = join(folder, 'image');
  execFileSync('truncate', ['-s', '128M', image]);
  execFileSync('mkfs.ext4', ['-q', image]);
  using cella = new Cella();
  const served = await Served.start(cella, flags, { around: withDisk(cella.dataDir, `-o loop ${image}`) });
  const tenants = await Promise.all(Array.from({ length: 20 }, (_, n) => Tenant.of(served, `slow-${n}`)));
  await Promise.all(tenants.map((tenant, n) => tenant.run(`kept = ${n}`)));
  const inside = ['--target', String(served.pid), '--mount', 'sh', '-c'];
  const script = 'for n in $(seq 12); do fsfreeze -f "$1"; sleep 0.3; fsfreeze -u "$1"; sleep 0.05; done';
  const stutter = once(spawn('nsenter', [...inside, script, 'sh', cella.dataDir], { stdio: 'ignore' }), 'exit');
  await Promise.all(
    tenants.map(async (tenant, n) => {
      expect(await tenant.call('POST', '/hibernate')).not.toHaveProperty('code');
      expect(await tenant.run('kept')).toMatchObject({ value: n });
    }),
  );
  expect(await stutter).toEqual([0, null]);
  for (const tenant of tenants) await tenant.check();
  await endInOrder(served);
});
