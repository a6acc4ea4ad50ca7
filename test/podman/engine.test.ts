/** Podman's service goes away, hangs and comes back. Nothing else does: each container is watched by a process of its own. */

import '../support/on-podman.ts';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildImage } from '../../src/executors/container/build-image.ts';
import { connectEngine } from '../../src/executors/container/engine.ts';
import { Administrator } from '../support/containers.ts';
import { canRunDocker, DockerEngine } from '../support/docker.ts';
import { type Open, openSession, runUntilReady, scratchFolder } from '../support/session.ts';

let engine: DockerEngine;
const open: Open = (options = {}) => openSession({ executor: 'container', engine: engine.address, ...options });

describe.skipIf(!canRunDocker)("Podman's service", { timeout: 120_000 }, () => {
  beforeAll(async () => {
    engine = await DockerEngine.start();
    const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';
    await buildImage(await connectEngine(engine.address), { python, packages: false, version: 'test' });
  }, 300_000);
  afterAll(() => engine?.remove());

  test('that is stopped ends no cell, and is named to whoever needs it; the session goes on', async () => {
    const dataDir = await scratchFolder();
    await using session = await open({ dataDir });
    await session.run('kept = [1, 2]');
    const onInput = async () => {
      await engine.stop();
      return 'gone';
    };
    expect(await session.run('input()', { onInput })).toMatchObject({ status: 'ok', value: 'gone' });
    expect(await session.run('kept')).toMatchObject({ status: 'ok', value: [1, 2] });
    await expect(open()).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    await engine.restart();
    await using other = await open();
    expect(await other.run('1 + 1')).toMatchObject({ value: 2 });
    expect(await session.run('kept')).toMatchObject({ value: [1, 2] });
    expect(await (await Administrator.of(engine.address)).containersOf(dataDir)).toHaveLength(1);
  });

  test('that is gone when a container ends is named, and the session recovers when it is back', async () => {
    const dataDir = await scratchFolder();
    await using session = await open({ dataDir });
    await session.run('kept = [1, 2]');
    await session.save();
    const { result } = await runUntilReady(session, 'print("ready", flush=True)\nwhile True: pass');
    const { State } = await (await (await Administrator.of(engine.address)).only(dataDir)).inspect();
    await engine.kill();
    process.kill(State.Pid, 'SIGKILL');
    expect(await result).toMatchObject({ status: 'died' });
    await expect(session.run('kept')).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    await engine.restart();
    expect(await session.run('kept')).toMatchObject({ status: 'ok', value: [1, 2], recovered: expect.anything() });
    expect(await (await Administrator.of(engine.address)).containersOf(dataDir)).toHaveLength(1);
  });

  test('that hangs keeps no cell from running and no session from closing, and is named to whoever opens one', async () => {
    const session = await open();
    await session.run('x = 1');
    engine.freeze();
    try {
      expect(await session.run('x')).toMatchObject({ value: 1 });
      await expect(open()).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
      await session.close();
    } finally {
      engine.thaw();
    }
  });

  test('that is gone keeps no session from closing, and its container is removed by whoever comes next', async () => {
    const dataDir = await scratchFolder();
    const session = await open({ dataDir });
    await session.run('1');
    await engine.stop();
    await session.close();
    await engine.restart();
    await using next = await open({ dataDir });
    await next.run('1');
    expect(await (await Administrator.of(engine.address)).containersOf(dataDir)).toHaveLength(1);
  });
});
