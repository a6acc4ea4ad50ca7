import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Database } from './database.ts';
import { FileEventLog } from './event-log.ts';

test.each([
  ['large events', 40, 'x'.repeat(1024 * 1024), 5],
  ['many events', 9000, 'x', 5],
])('%s are removed a few at a time', async (_what, count, text, least) => {
  const folder = await mkdtemp(join(tmpdir(), 'cella-events-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const database = new Database(join(folder, 'cella.db'));
  onTestFinished(() => database.close());
  const log = new FileEventLog(database, Date.now);
  await log.append('a', Array(count).fill(text), { flushed: false });
  const write = vi.spyOn(database, 'write');
  expect(await log.trim('a', { maxEvents: 1 })).toBe(count - 1);
  // The first write raises the floor.
  expect(write.mock.calls.length - 1).toBeGreaterThanOrEqual(least);
  expect((await log.read('a')[Symbol.asyncIterator]().next()).value).toMatchObject({ seq: count });
});
