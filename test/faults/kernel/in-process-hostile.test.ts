/** Code in the in-process executor that does harm by mistake: the host goes on. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { openInProcess as open } from '../../support/kernels/in-process.ts';

it('a task that writes to the connection of its kernel ends that kernel, and not the host', async () => {
  await using session = await open({ saveAfterMs: 1_000_000_000 });
  const noise = `
import asyncio, os
async def noise():
    await asyncio.sleep(0.05)
    open("begun", "w").close()
    while True:
        os.write(256, b"x" * 1000)
        await asyncio.sleep(0.001)
task = asyncio.create_task(noise())
await asyncio.sleep(0)`;
  // What can be gone back to keeps the worker when its kernel has ended.
  expect((await session.run(noise, { transaction: 'explicit' })).status).toBe('ok');
  await vi.waitFor(() => expect(existsSync(join(session.cwd, 'begun'))).toBe(true), { timeout: 20_000 });
  // Told or not, whether the moment is still there: the point is what comes after it.
  await session.rollback().catch(() => {});
  await vi.waitFor(async () => expect((await session.run('1')).value).toBe(1), { timeout: 20_000 });
});
