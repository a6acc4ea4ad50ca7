import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { Database } from './database.ts';
import { FileStorage } from './file-storage.ts';

const folder = mkdtempSync(join(tmpdir(), 'cella-locks-'));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it('a lock whose release failed is released again automatically', async () => {
  await using storage = await FileStorage.open(folder);
  const lock = await storage.locks.acquire('agent');
  const full = vi.spyOn(Database.prototype, 'write').mockRejectedValueOnce(new Error('the disk is full'));
  await expect(lock.release()).rejects.toThrow('the disk is full');
  full.mockRestore();
  const again = await storage.locks.acquire('agent', { waitMs: 30_000 });
  expect(again.held).toBe(true);
});
