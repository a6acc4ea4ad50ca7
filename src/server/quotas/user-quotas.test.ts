import { execFileSync } from 'node:child_process';
import {
  closeSync,
  ftruncateSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { failureOf } from '../../../test/contract/storage/samples.ts';
import { folderSize } from '../../lib/folder-size.ts';
import type { Quotas, User } from '../../protocol/access-models.ts';
import { StorageQuota } from './storage-quota.ts';
import { UserQuotas } from './user-quotas.ts';

const ada = 'ada~aaaaaaaaaaaa';

function quotasOf(own: Quotas, more: { defaults?: Quotas; elapsed?: () => number } = {}): UserQuotas {
  const user: User = { id: ada, name: 'ada', role: 'member', disabled: false, quotas: own, createdAt: 0, updatedAt: 0 };
  return new UserQuotas({ users: { find: async (id) => (id === ada ? user : undefined) }, ...more });
}

const nothing = { liveKernels: 0, memoryMb: 0, storageBytes: 0 };

describe('quotas', () => {
  test('are the user’s own, or the server’s defaults', async () => {
    const quotas = quotasOf({ liveKernels: 2 }, { defaults: { liveKernels: 1, memoryMb: 100 } });
    expect(await quotas.limitsOf(ada)).toEqual({ liveKernels: 2, memoryMb: 100, sessions: 1000 });
    expect((await failureOf(quotas.limitsOf('bob~bbbbbbbbbbbb'))).code).toBe('NOT_FOUND');
  });

  test('refuse what exceeds the limit, with when to retry, and allow what is exactly at it', async () => {
    const quotas = quotasOf({ storageBytes: 100, memoryMb: 0 });
    await quotas.check(ada, { storageBytes: 40 }, { ...nothing, storageBytes: 60 });
    await quotas.check(ada, {}, { ...nothing, storageBytes: 500 });
    await quotas.check(ada, { liveKernels: 1000 }, nothing);
    expect(await failureOf(quotas.check(ada, { storageBytes: 41 }, { ...nothing, storageBytes: 60 }))).toMatchObject({
      code: 'QUOTA_EXCEEDED',
      details: { quota: 'storageBytes', limit: 100, used: 60, asked: 41, retryAfterMs: 60_000 },
    });
    expect((await failureOf(quotas.check(ada, { memoryMb: 1 }, nothing))).code).toBe('QUOTA_EXCEEDED');
  });
});

describe('executions', () => {
  test('are counted over the last minute, and the refusal says when the next one is allowed', async () => {
    let now = 0;
    const quotas = quotasOf({ executionsPerMinute: 2 }, { elapsed: () => now });
    await quotas.countExecution(ada);
    now = 20_000;
    await quotas.countExecution(ada);
    now = 30_000;
    expect(await failureOf(quotas.countExecution(ada))).toMatchObject({
      code: 'QUOTA_EXCEEDED',
      details: { quota: 'executionsPerMinute', limit: 2, used: 2, retryAfterMs: 30_000 },
    });
    now = 60_000;
    await quotas.countExecution(ada);
    expect((await failureOf(quotas.countExecution(ada))).details).toMatchObject({ retryAfterMs: 20_000 });
  });

  test('at a limit of 0 are all refused', async () => {
    const error = await failureOf(quotasOf({ executionsPerMinute: 0 }).countExecution(ada));
    expect(error).toMatchObject({ code: 'QUOTA_EXCEEDED', details: { retryAfterMs: 60_000 } });
  });
});

const MB = 1024 * 1024;

function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'cella-quota-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

describe('the size of a folder', () => {
  test('includes all files at any depth', async () => {
    const folder = scratch();
    let deep = folder;
    for (let depth = 0; depth < 100; depth += 1) {
      deep = join(deep, 'd');
      mkdirSync(deep);
    }
    writeFileSync(join(deep, 'file'), Buffer.alloc(3 * MB, 1));
    writeFileSync(join(folder, 'other'), Buffer.alloc(MB, 1));
    const bytes = await folderSize(folder);
    expect(bytes).toBeGreaterThanOrEqual(4 * MB);
    expect(bytes).toBeLessThan(5 * MB);
  });

  test('counts neither targets of links, nor holes, nor one file twice', async () => {
    const [folder, elsewhere] = [scratch(), scratch()];
    writeFileSync(join(elsewhere, 'large'), Buffer.alloc(8 * MB, 1));
    symlinkSync(elsewhere, join(folder, 'folder'));
    symlinkSync(join(elsewhere, 'large'), join(folder, 'file'));
    symlinkSync('.', join(folder, 'itself'));
    const hole = openSync(join(folder, 'hole'), 'w');
    ftruncateSync(hole, 1000 * MB);
    closeSync(hole);
    writeFileSync(join(folder, 'one'), Buffer.alloc(MB, 1));
    for (let count = 0; count < 9; count += 1) linkSync(join(folder, 'one'), join(folder, `link${count}`));
    const bytes = await folderSize(folder);
    expect(bytes).toBeGreaterThanOrEqual(MB);
    expect(bytes).toBeLessThan(2 * MB);
  });

  test('counts files whose names are not text', async () => {
    const folder = scratch();
    const odd = Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0x66, 0xff])]);
    mkdirSync(odd);
    writeFileSync(Buffer.concat([odd, Buffer.from('/'), Buffer.from([0xfe])]), Buffer.alloc(2 * MB, 1));
    expect(await folderSize(folder)).toBeGreaterThanOrEqual(2 * MB);
  });

  test('is above zero for many empty files, and zero for a missing folder', async () => {
    const folder = scratch();
    for (let count = 0; count < 1000; count += 1) writeFileSync(join(folder, `${count}`), '');
    expect(await folderSize(folder)).toBeGreaterThanOrEqual(1000 * 512);
    expect(await folderSize(join(folder, 'nothing'))).toBe(0);
  });

  test('is infinite if it cannot be measured', async () => {
    const [many, deep] = [scratch(), scratch()];
    for (let count = 0; count < 20; count += 1) writeFileSync(join(many, `${count}`), '');
    expect(await folderSize(many, { mostEntries: 20 })).toBeLessThan(Infinity);
    expect(await folderSize(many, { mostEntries: 19 })).toBe(Infinity);
    // Paths of folders that wait to be looked at are held in memory.
    for (let n = 0; n < 20; n++) mkdirSync(join(many, `folder-${n}`));
    expect(await folderSize(many, { mostWaitingBytes: 20 * (many.length + 20) })).toBeLessThan(Infinity);
    expect(await folderSize(many, { mostWaitingBytes: 10 * many.length })).toBe(Infinity);
    const name = 'x'.repeat(200);
    execFileSync('sh', ['-c', `for i in $(seq 30); do mkdir ${name} && cd -P ${name} || exit 1; done`], { cwd: deep });
    expect(await folderSize(deep)).toBe(Infinity);
    execFileSync('rm', ['-rf', join(deep, name)]);
  });
});

/** Ada has one folder and one checkpoint of a megabyte. */
function storageOf(folder: string, own: Quotas) {
  const user = { id: ada, name: 'ada', role: 'member', disabled: false, createdAt: 0, updatedAt: 0 } as const;
  const quotas = new UserQuotas({ users: { find: async () => ({ ...user, quotas: own }) } });
  let [now, looks] = [0, 0];
  const storage = new StorageQuota({
    quotas,
    transcripts: { bytes: async (key) => (key === 'a' ? MB / 4 : 0) },
    events: { bytes: async (key) => (key === 'b' ? MB / 4 : 0) },
    checkpoints: { bytes: async (key) => (key === 'a' ? MB : 0) },
    storedDataOf: async () => {
      looks += 1;
      return { folders: [folder], agentKeys: ['a', 'b'], keptBytes: 0 };
    },
    elapsed: () => now,
  });
  return { storage, later: (ms: number) => (now += ms), looks: () => looks };
}

describe('the storage quota', () => {
  test('counts folders and checkpoints, and what was admitted since the measurement', async () => {
    const folder = scratch();
    writeFileSync(join(folder, 'file'), Buffer.alloc(MB, 1));
    const { storage, looks } = storageOf(folder, { storageBytes: 4 * MB });
    await storage.admit(ada, MB);
    expect(await failureOf(storage.admit(ada, MB))).toMatchObject({
      code: 'QUOTA_EXCEEDED',
      details: { quota: 'storageBytes', limit: 4 * MB, asked: MB, retryAfterMs: 60_000 },
    });
    expect(looks()).toBe(1);
  });

  test('applies to concurrent callers, also during a measurement', async () => {
    const folder = scratch();
    writeFileSync(join(folder, 'file'), Buffer.alloc(MB, 1));
    const { storage, looks } = storageOf(folder, { storageBytes: 6 * MB });
    const asked = await Promise.allSettled(Array.from({ length: 10 }, () => storage.admit(ada, MB)));
    expect(asked.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
    expect(looks()).toBe(1);
  });

  test('is measured again after a minute, so that users who deleted files can continue', async () => {
    const folder = scratch();
    writeFileSync(join(folder, 'file'), Buffer.alloc(5 * MB, 1));
    const { storage, later, looks } = storageOf(folder, { storageBytes: 4 * MB });
    expect((await failureOf(storage.admit(ada))).code).toBe('QUOTA_EXCEEDED');
    rmSync(join(folder, 'file'));
    later(59_000);
    expect((await failureOf(storage.admit(ada))).code).toBe('QUOTA_EXCEEDED');
    expect(looks()).toBe(1);
    later(2000);
    expect((await failureOf(storage.admit(ada))).code).toBe('QUOTA_EXCEEDED');
    expect(await storage.used(ada)).toBeLessThan(2 * MB);
    expect(looks()).toBe(2);
    await storage.admit(ada);
  });

  test('that is not set causes no measurement', async () => {
    const { storage, looks } = storageOf(scratch(), {});
    await storage.admit(ada, 1e15);
    expect(looks()).toBe(0);
  });
});
