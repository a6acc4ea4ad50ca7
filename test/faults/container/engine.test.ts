/** An engine that goes away, hangs and comes back, under sessions whose kernels live in its containers. */

import { describe, expect, test } from 'vitest';
import { canRunDocker, engineKind } from '../../support/docker/docker.ts';
import { runUntilReady, scratchFolder } from '../../support/kernels/session.ts';
import { engineFaults, ownEngine } from './own-engine.ts';

// Containers of Podman do not end with its service: test/hosts/podman/engine.test.ts says what comes of it there.
describe.skipIf(!canRunDocker || engineKind() === 'podman')('an engine', { timeout: 120_000 }, () => {
  const own = ownEngine();
  const { engine, open, containersOf } = own;

  test('that is stopped ends the cell and is named, and the session recovers when it is back', async () => {
    const dataDir = await scratchFolder();
    await using session = await open({ dataDir });
    await session.run('kept = [1, 2]');
    await session.save();
    const { result } = await runUntilReady(session, 'print("ready", flush=True)\nwhile True: pass');
    await engine().stop();
    expect(await result).toMatchObject({ status: 'died' });
    await expect(session.run('kept')).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    await engine().restart();
    expect(await session.run('kept')).toMatchObject({ status: 'ok', value: [1, 2], recovered: expect.anything() });
    // What the engine could not be asked to remove is gone too.
    expect(await containersOf(dataDir)).toHaveLength(1);
  });

  engineFaults(own);
});
