/** Podman's service goes away, hangs and comes back. Nothing else does: each container is watched by a process of its own. */

import './on-podman.ts';
import { describe, expect, test } from 'vitest';
import { engineFaults, ownEngine } from '../../faults/container/own-engine.ts';
import { canRunDocker } from '../../support/docker/docker.ts';
import { runUntilReady, scratchFolder } from '../../support/kernels/session.ts';

describe.skipIf(!canRunDocker)("Podman's service", { timeout: 120_000 }, () => {
  const own = ownEngine();
  const { engine, open, containersOf, containerOf } = own;

  test('that is stopped ends no cell and is named in errors, and the session continues', async () => {
    const dataDir = await scratchFolder();
    await using session = await open({ dataDir });
    await session.run('kept = [1, 2]');
    const onInput = async () => {
      await engine().stop();
      return 'gone';
    };
    expect(await session.run('input()', { onInput })).toMatchObject({ status: 'ok', value: 'gone' });
    expect(await session.run('kept')).toMatchObject({ status: 'ok', value: [1, 2] });
    await expect(open()).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    await engine().restart();
    await using other = await open();
    expect(await other.run('1 + 1')).toMatchObject({ value: 2 });
    expect(await session.run('kept')).toMatchObject({ value: [1, 2] });
    expect(await containersOf(dataDir)).toHaveLength(1);
  });

  test('that is gone when a container ends is named in the error, and the session recovers when it is back', async () => {
    const dataDir = await scratchFolder();
    await using session = await open({ dataDir });
    await session.run('kept = [1, 2]');
    await session.save();
    const { result } = await runUntilReady(session, 'print("ready", flush=True)\nwhile True: pass');
    const { State } = await (await containerOf(dataDir)).inspect();
    await engine().kill();
    process.kill(State.Pid, 'SIGKILL');
    expect(await result).toMatchObject({ status: 'died' });
    await expect(session.run('kept')).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    await engine().restart();
    expect(await session.run('kept')).toMatchObject({ status: 'ok', value: [1, 2], recovered: expect.anything() });
    expect(await containersOf(dataDir)).toHaveLength(1);
  });

  engineFaults(own);
});
