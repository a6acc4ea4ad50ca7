/** What sessions leave behind: nothing of it keeps a server from starting. */

import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../support/kernels/attack-code.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { TestServer } from '../../support/servers/server.ts';
import { deepLeftovers } from './leftovers.ts';

deepLeftovers(5000, async () => {
  const folder = await scratchFolder();
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=700', 'cella-test', folder]);
  onTestFinished(() => void execFileSync('umount', ['-l', folder]));
  return folder;
});

it('that cannot be removed do not prevent a start, and mounted data stays', async () => {
  const [dataDir, outside] = [await scratchFolder(), await scratchFolder()];
  writeFileSync(join(outside, 'canary'), 'kept');
  const before = await TestServer.start({ dataDir });
  const { id } = await before.session({ agentKey: 'mounted' });
  expect(await before.run(id, 'import os; os.mkdir("mount")')).toMatchObject({ status: 'ok' });
  const agents = join(dataDir, 'agents');
  const [folder = ''] = readdirSync(agents);
  execFileSync('mount', ['--bind', outside, join(agents, folder, 'workspace', 'mount')]);
  const unmount = () => {
    for (const name of readdirSync(agents)) {
      execFileSync('umount', ['-q', join(agents, name, 'workspace', 'mount')], { stdio: 'ignore' });
    }
  };
  onTestFinished(() => {
    try {
      unmount();
    } catch {
      // it was unmounted before
    }
  });
  expect((await before.call(`DELETE /v1/sessions/${id}`)).status).toBe(204);
  await before[Symbol.asyncDispose]();
  expect(readdirSync(outside)).toEqual(['canary']);
  const after = await TestServer.start({ dataDir });
  expect((await after.call('GET /ready')).status).toBe(200);
  await after[Symbol.asyncDispose]();
  expect(readdirSync(outside)).toEqual(['canary']);
  unmount();
  mkdirSync(join(agents, '.removed-by-nobody'));
  await using _last = await TestServer.start({ dataDir });
  await eventually(
    () => readdirSync(agents),
    (names) => names.length === 0,
    5000,
  );
});
