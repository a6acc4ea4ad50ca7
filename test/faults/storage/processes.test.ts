/** What becomes of a storage whose processes are killed, race, or run out of room. */

import { readdirSync, readFileSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { openAccess } from '../../../src/server/access/access-control.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { collect, failureOf, save } from '../../contract/storage/samples.ts';
import { eventually } from '../../support/kernels/attack-code.ts';
import { segmentOf } from './checkpoint-data.ts';
import { Child, openStorage, scratch, type Told } from './child-processes.ts';

const numbers = (to: number) => Array.from({ length: to }, (_, index) => index + 1);

/** Kills at a moment that has nothing to do with what the child is at, and gives everything it told before. */
async function killAtRandom(child: Child, withinMs: number): Promise<Told[]> {
  await child.next();
  await delay(Math.random() * withinMs);
  await child.kill();
  return collect(child.lines);
}

async function expectWhole({ checkpoints }: FileStorage): Promise<string[]> {
  const all = await checkpoints.list('a');
  for (const { id } of all) {
    const manifest = await checkpoints.get('a', id);
    if (!manifest) throw new Error(`${id} is listed, and not there`);
    for (const [index, { bytes }] of manifest.segments.entries()) {
      const found = await checkpoints.read('a', manifest, index);
      expect(Buffer.compare(found ?? Buffer.alloc(0), segmentOf(manifest.id, bytes)), manifest.id).toBe(0);
    }
  }
  return all.map(({ id }) => id);
}

/** Runs a role again and again, killed one step later each time, until it comes to its end. Gives what was left. */
async function killedAtEveryStep(role: string): Promise<{ left: string[]; steps: string[] }> {
  const left: string[] = [];
  for (let step = 1; ; step += 1) {
    const path = scratch();
    const child = new Child(role, path, String(step));
    const [told] = await collect(child.lines);
    await child.exited();
    await using storage = await FileStorage.open(path);
    left.push((await expectWhole(storage)).join());
    expect(await storage.checkpoints.damaged('a'), `before step ${step}`).toEqual([]);
    expect(unfinished(path)).toEqual([]);
    if (told) return { left, steps: told.steps as string[] };
  }
}

describe('a process that is killed', () => {
  it('before any step of writing a checkpoint leaves it complete or absent', { timeout: 180_000 }, async () => {
    const { left, steps } = await killedAtEveryStep('saveStepwise');
    // All of it is on the disk before it gets its name, and so is the name before it is told.
    const named = steps.indexOf('rename');
    for (const [index, step] of steps.slice(0, named).entries()) {
      if (step === 'writeFile')
        expect(steps.slice(index + 1, named).filter((next) => next !== 'writeFile')[0]).toBe('sync');
    }
    expect(steps.slice(named)).toContain('sync');
    expect([...new Set(left)]).toEqual(['before', 'before,after']);
  });

  it('before any step of deleting a checkpoint leaves it complete or absent', { timeout: 180_000 }, async () => {
    const { left } = await killedAtEveryStep('deleteStepwise');
    expect([...new Set(left)]).toEqual(['before,after', 'before']);
  });

  it('while it writes checkpoints leaves each one complete or absent', { timeout: 180_000 }, async () => {
    const path = scratch();
    const finished: string[] = [];
    for (let round = 0; round < 15; round += 1) {
      const told = await killAtRandom(new Child('save', path, `r${round}`), 120);
      finished.push(...told.map((line) => String(line.finished)));
      const storage = await openStorage(path);
      const ids = await expectWhole(storage);
      // At most one was finished without having been told.
      expect(ids.filter((id) => finished.includes(id))).toEqual(finished);
      expect(ids.length - finished.length).toBeLessThanOrEqual(1);
      expect(await storage.checkpoints.damaged('a')).toEqual([]);
      expect(unfinished(path)).toEqual([]);
      for (const id of ids) await storage.checkpoints.delete('a', id);
      finished.length = 0;
      await storage.close();
    }
  });

  it('while it appends events leaves all acknowledged ones, without gaps', { timeout: 180_000 }, async () => {
    const path = scratch();
    for (let round = 0; round < 15; round += 1) {
      const before = await (await openStorage(path)).events.last('a');
      const told = await killAtRandom(new Child('append', path, `r${round}`), 60);
      const storage = await openStorage(path);
      const last = await storage.events.last('a');
      expect(last).toBeGreaterThanOrEqual(Math.max(before, ...told.map((line) => Number(line.acknowledged))));
      const events = await collect(storage.events.read('a'));
      expect(events.map(({ seq }) => seq)).toEqual(numbers(last));
      const own = events.slice(before).map(({ event }) => event);
      expect(own).toEqual(numbers(last - before).map((count) => ({ mark: `r${round}`, count })));
      await storage.close();
    }
  });

  it('while it increments a document leaves the acknowledged value, next to another that does the same', {
    timeout: 180_000,
  }, async () => {
    const path = scratch();
    const other = new Child('count', path);
    await other.next();
    for (let round = 0; round < 8; round += 1) {
      const told = await killAtRandom(new Child('count', path), 60);
      const { documents } = await openStorage(path);
      const seen = await documents.get('counts', 'a');
      expect(seen?.value).toBeGreaterThanOrEqual(Math.max(0, ...told.map((line) => Number(line.acknowledged ?? 0))));
    }
    await other.kill();
    const { documents } = await openStorage(path);
    const { revision, value } = (await documents.get('counts', 'a')) ?? {};
    // Each count has a revision of its own: none was made twice, and none was skipped.
    expect(revision).toBe(value);
  });

  it('before any step of the first start leaves a server that can be started', { timeout: 180_000 }, async () => {
    for (let step = 1, ended = false; !ended; step += 1) {
      const path = scratch();
      const child = new Child('startStepwise', path, String(step));
      ended = (await collect(child.lines)).length > 0;
      await child.exited();
      const storage = await openStorage(path);
      await using access = await openAccess({ storage, dataDir: path });
      const token = readFileSync(join(path, 'admin-token'), 'utf8').trim();
      expect((await access.authenticate(token)).scopes).toContain('admin');
      expect(await access.tokens.list(access.localAdmin())).toHaveLength(1);
      expect(readdirSync(path).filter((name) => name.startsWith('.admin'))).toEqual([]);
    }
  });

  it('releases its lock, and its unfinished files are removed', async () => {
    const path = scratch();
    const child = new Child('hold', path);
    await child.next();
    const storage = await openStorage(path);
    const busy = await failureOf(storage.locks.acquire('a'));
    expect(busy).toMatchObject({ code: 'KEY_BUSY', details: { pid: child.pid, command: 'storage-child hold' } });
    // Whoever lives keeps what it has not finished, also when others sweep.
    expect(unfinished(path)).toHaveLength(1);
    child.signal('SIGSTOP');
    expect((await failureOf(storage.locks.acquire('a'))).code).toBe('KEY_BUSY');
    await child.kill();
    expect((await storage.locks.acquire('a')).held).toBe(true);
    expect(unfinished(path)).toHaveLength(1);
    await openStorage(path);
    expect(unfinished(path)).toEqual([]);
    expect(readdirSync(join(path, 'processes'))).toHaveLength(1);
  });

  it('counts as ended even if its parent has not reaped it', async () => {
    const path = scratch();
    // `sleep` never asks.
    const child = new Child('hold', path, '', ['sh', '-c', 'exec 3<&0; "$@" <&3 & exec sleep 600', 'sh']);
    const pid = Number((await child.next()).holding);
    const storage = await openStorage(path);
    expect((await failureOf(storage.locks.acquire('a'))).details.pid).toBe(pid);
    process.kill(pid, 'SIGKILL');
    const state = () => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.[0];
    await eventually(state, (letter) => letter === 'Z', 10_000);
    expect((await storage.locks.acquire('a')).held).toBe(true);
  });

  it('in another container is distinguished from one that is alive there', async () => {
    const path = scratch();
    const root = process.getuid?.() === 0 ? [] : ['--user', '--map-root-user'];
    const container = ['unshare', ...root, '--pid', '--fork', '--kill-child', '--mount-proc'];
    const child = new Child('hold', path, '', container);
    const { holding } = await child.next();
    const storage = await openStorage(path);
    // Its pid there says nothing here, where another process may have it.
    expect((await failureOf(storage.locks.acquire('a'))).details.pid).toBe(holding);
    expect(unfinished(path)).toHaveLength(1);
    await child.kill();
    // `unshare` has ended, and the kernel ends what it has started.
    expect((await storage.locks.acquire('a', { waitMs: 10_000 })).held).toBe(true);
    await openStorage(path);
    expect(unfinished(path)).toEqual([]);
  });
});

describe('several processes', () => {
  it('append at once without gaps, each in its own order', { timeout: 60_000 }, async () => {
    const path = scratch();
    const marks = ['a', 'b', 'c', 'd'];
    const children = marks.map((mark) => new Child('appendTogether', path, mark));
    for (const child of children) await child.next();
    for (const child of children) child.go();
    const told = await Promise.all(children.map((child) => child.next()));
    const storage = await openStorage(path);
    const events = await collect(storage.events.read('a'));
    expect(events.map(({ seq }) => seq)).toEqual(numbers(600));
    for (const [index, mark] of marks.entries()) {
      const own = told[index]?.numbers as number[];
      expect(own.map((seq) => events[seq - 1]?.event)).toEqual(numbers(150).map((count) => ({ mark, count })));
      expect(own).toEqual(own.toSorted((one, other) => one - other));
    }
  });

  it('that race for a dead process’s lock: exactly one gets it', { timeout: 120_000 }, async () => {
    for (let round = 0; round < 8; round += 1) {
      const path = scratch();
      const dead = new Child('hold', path);
      await dead.next();
      const children = numbers(4).map(() => new Child('race', path));
      for (const child of children) await child.next();
      await dead.kill();
      for (const child of children) child.go();
      const told = await Promise.all(children.map(async (child) => (await child.next()).race as Told));
      const winner = told.findIndex(({ code }) => code === 'ok');
      const busy = { code: 'KEY_BUSY', details: { pid: children[winner]?.pid } };
      expect(told.toSpliced(winner, 1)).toEqual(numbers(3).map(() => expect.objectContaining({ code: busy.code })));
      for (const lost of told.toSpliced(winner, 1)) expect(lost).toMatchObject(busy);
      await Promise.all(children.map((child) => child.kill()));
    }
  });

  it('open a fresh folder at once', { timeout: 60_000 }, async () => {
    const path = join(scratch(), 'not', 'there', 'yet');
    const children = numbers(4).map((mark) => new Child('append', path, String(mark)));
    for (const child of children) expect(await child.next()).toEqual({ ready: true });
    for (const child of children) expect(Number((await child.next()).acknowledged)).toBeGreaterThan(0);
    await Promise.all(children.map((child) => child.kill()));
  });
});

/** Runs in mounts of its own, which end with it; where this is no root host, as root of a user namespace. */
function withMounts(script: string): string[] {
  const root = process.getuid?.() === 0 ? [] : ['--user', '--map-root-user'];
  return ['unshare', ...root, '--mount', 'sh', '-ec', `${script}; exec "$@"`, 'sh'];
}

describe('a disk', () => {
  it('that is full fails only the writes that do not fit', { timeout: 60_000 }, async () => {
    const path = scratch();
    const child = new Child('fill', path, '', withMounts(`mount -t tmpfs -o size=20m none '${path}'`));
    const told = await child.next();
    const full = { code: 'STORAGE_FAILED', message: expect.stringContaining('the disk is full') };
    expect(told.tooLarge).toMatchObject({ ...full, details: { reason: 'ENOSPC' } });
    expect(told.left).toBe(0);
    expect(told.full).toMatchObject({ ...full, details: { path: join(path, 'cella.db') } });
    expect(told.small).toMatchObject(full);
    expect(told.next).toBe(Number(told.last) + 1);
    expect(told.seqs).toEqual(numbers(Number(told.next)));
    expect(told).toMatchObject({ ids: ['kept', 'fits', 'later'], damaged: [] });
  });

  it('that is read-only still returns its checkpoints, and names the reason for other failures', async () => {
    const path = scratch();
    await fillOld(path);
    const readOnly = `mount --bind '${path}' '${path}'; mount -o remount,bind,ro '${path}'`;
    const told = await new Child('refused', path, '', withMounts(readOnly)).next();
    const refused = { code: 'STORAGE_FAILED', message: expect.stringContaining(path) };
    expect(told.opened).toMatchObject({ ...refused, details: { reason: 'EROFS' } });
    expect(told).toMatchObject({ ids: ['one'], begun: refused, appended: refused, locked: refused });
  });

  it('that this user cannot write to is named in the error', async () => {
    const path = scratch();
    await fillOld(path);
    await chmod(path, 0o500);
    const told = await new Child('refused', path, 'nobody').next();
    await chmod(path, 0o700);
    expect(told.opened).toMatchObject({
      code: 'STORAGE_FAILED',
      message: expect.stringContaining(join(path, 'fresh')),
      details: { reason: 'EACCES' },
    });
  });

  it('whose folder is a file is named in the error', async () => {
    const path = join(scratch(), 'file');
    await writeFile(path, '');
    for (const folder of [path, join(path, 'below')]) {
      const error = await failureOf(FileStorage.open(folder));
      expect(error).toMatchObject({ code: 'STORAGE_FAILED', message: expect.stringContaining(folder) });
    }
  });
});

async function fillOld(path: string): Promise<void> {
  await using storage = await FileStorage.open(join(path, 'old'));
  await save(storage, 'a', 'one');
  await storage.events.append('a', [1]);
}

const unfinished = (path: string): string[] => readdirSync(join(path, 'checkpoints', '.unfinished'));
