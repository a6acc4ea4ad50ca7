/** Packages over the API: how far they are is told, and kernels that live find them. */

import { chmod, mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { connect } from '../../../src/client/index.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { makeWheel } from '../../support/packages/wheels.ts';
import { connectTo } from '../../support/servers/client.ts';
import { TestServer } from '../../support/servers/server.ts';

let server: TestServer;
beforeAll(async () => {
  const wheels = await mkdtemp(join(await scratchFolder(), 'wheels-'));
  // Installers of a root host run as another user.
  await chmod(wheels, 0o755);
  for (const name of ['tiny-thing', 'thing-of-session', 'thing-of-user', 'later-thing']) await makeWheel(wheels, name);
  server = await TestServer.start({ session: { packages: { wheelFolders: [wheels], noIndex: true } } });
});

describe('packages over the API', { timeout: 120_000 }, () => {
  it('report progress, and can be imported by every live kernel of their owner', async () => {
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

  it.each(['session', 'user'] as const)(
    'are added and removed with the routes of a %s, also for live kernels',
    async (owner) => {
      const client = await connectTo(server, 'url');
      const [one, other] = [
        await client.open({ agentKey: `${owner} 1` }),
        await client.open({ agentKey: `${owner} 2` }),
      ];
      await other.run('x = 1');
      const { deps } = owner === 'session' ? one : client;
      const lines: string[] = [];
      const name = `thing-of-${owner}`;
      expect(await deps.add(name, { onProgress: (text) => lines.push(text) })).toMatchObject({ installed: [name] });
      expect(lines.length).toBeGreaterThan(0);
      expect(await deps.list()).toContain(name);
      expect(await deps.status()).toMatchObject({ installed: true });
      expect(await other.run(`import thing_of_${owner} as thing; thing.VERSION, x`)).toMatchObject({
        value: ['1.0.0', 1],
      });
      expect(await deps.remove(name)).toMatchObject({ removed: [name] });
      expect(await deps.list()).not.toContain(name);
      expect(await deps.sync()).toMatchObject({ failed: [] });
      await expect(deps.add('not a package!')).rejects.toMatchObject({ code: 'DEPS_INVALID' });
      await expect(deps.add('not a package!', { onProgress: () => {} })).rejects.toMatchObject({
        code: 'DEPS_INVALID',
      });
    },
  );

  it('that code adds are available to a kernel that restarts', async () => {
    const client = await connectTo(server, 'url');
    const [one, other] = [await client.open({ agentKey: 'adds' }), await client.open({ agentKey: 'sleeps' })];
    await other.run('x = 1');
    await other.hibernate();
    expect(await one.run('deps.add("later-thing")["installed"]')).toMatchObject({ value: ['later-thing'] });
    expect(await other.run('import later_thing; later_thing.VERSION, x')).toMatchObject({ value: ['1.0.0', 1] });
  });

  it('are locked for everybody if the server locks them, over the API and in code; list and sync still work', async () => {
    await using locked = await TestServer.start({ allowRuntimeDeps: false });
    await using client = await connect({ url: locked.url, token: locked.token });
    await using session = await client.open({ agentKey: 'locked', allowRuntimeDeps: true });
    for (const { deps } of [client, session]) {
      for (const options of [{}, { onProgress: () => {} }]) {
        await expect(deps.add('tiny-thing', options)).rejects.toMatchObject({ code: 'DEPS_LOCKED' });
        await expect(deps.remove('tiny-thing', options)).rejects.toMatchObject({ code: 'DEPS_LOCKED' });
      }
      expect(await deps.list()).toEqual([]);
      expect(await deps.sync()).toMatchObject({ installed: [], failed: [] });
    }
    const tried = 'try: deps.add("tiny-thing")\nexcept PermissionError as error: print(error.code)';
    expect(await session.run(tried)).toMatchObject({ stdout: 'DEPS_LOCKED\n' });
    const fork = await session.fork({ agentKey: 'locked fork' });
    expect(await fork.run(tried)).toMatchObject({ stdout: 'DEPS_LOCKED\n' });
    await client.sessions.update(session.id, { allowRuntimeDeps: true, undo: 1 });
    expect(await session.run(tried)).toMatchObject({ stdout: 'DEPS_LOCKED\n' });
  });

  it('that are installed before a kernel starts are logged, and failures once', async () => {
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
