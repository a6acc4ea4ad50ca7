/** Packages over the API: how far they are is told, and kernels that live find them. */

import { chmod, mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { FileStorage } from '../../../src/storage/file/storage.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { makeWheel } from '../../support/packages/wheels.ts';
import { connectTo } from '../../support/servers/client.ts';
import { TestServer } from '../../support/servers/server.ts';

let server: TestServer;
beforeAll(async () => {
  const wheels = await mkdtemp(join(await scratchFolder(), 'wheels-'));
  // Installers of a root host run as another user.
  await chmod(wheels, 0o755);
  await makeWheel(wheels, 'tiny-thing');
  server = await TestServer.start({ session: { packages: { wheelFolders: [wheels], noIndex: true } } });
});

describe('packages over the API', { timeout: 120_000 }, () => {
  it('tell how far they are, and are found by every live kernel of their owner', async () => {
    const client = await connectTo(server, 'url');
    const [one, other] = [await client.open({ agentKey: 'one' }), await client.open({ agentKey: 'other' })];
    await other.run('x = 1');
    const lines: string[] = [];
    const added = await one.deps.add('tiny-thing', { onProgress: (text) => lines.push(text) });
    expect(added).toMatchObject({ installed: ['tiny-thing'], failed: [] });
    expect(lines[0]).toMatch(/^Installing tiny-thing with /);
    for (const session of [one, other]) {
      expect(await session.run('import tiny_thing; tiny_thing.VERSION')).toMatchObject({ value: '1.0.0' });
    }
    expect(await other.run('x')).toMatchObject({ value: 1 });
    const wrong = one.deps.add('not a package!', { onProgress: () => {} });
    await expect(wrong).rejects.toMatchObject({ code: 'DEPS_INVALID' });
  });

  it('that are installed before a kernel starts are told in the log, what fails once', async () => {
    {
      await using storage = await FileStorage.open(server.facts.dataDir);
      for (const name of ['tiny-thing', 'no-such-thing']) await storage.deps.add(name);
    }
    const client = await connectTo(server, 'socket');
    const session = await client.open({ agentKey: 'prepared', syncDepsOnStart: true });
    expect(await session.run('import tiny_thing; tiny_thing.VERSION')).toMatchObject({ value: '1.0.0' });
    const told = async () => {
      const { events } = await session.eventPage();
      return events.flatMap((event) => (event.type === 'progress' && event.background ? [event.text] : []));
    };
    expect((await told())[0]).toMatch(/^Installing .*no-such-thing/);
    const failures = (await told()).filter((text) => text.startsWith('no-such-thing could not be installed'));
    expect(failures).toHaveLength(1);
    expect((await client.kernels()).map(({ agentKey }) => agentKey)).toEqual(
      expect.arrayContaining(['one', 'other', 'prepared']),
    );
  });
});
