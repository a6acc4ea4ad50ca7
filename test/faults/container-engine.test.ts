/** An engine that goes away, hangs and comes back, under sessions whose kernels live in its containers. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildImage } from '../../src/executors/container/build-image.ts';
import { connectEngine } from '../../src/executors/container/engine.ts';
import { Administrator } from '../support/containers.ts';
import { canRunDocker, DockerEngine, engineKind } from '../support/docker.ts';
import { type Open, openSession, runUntilReady, scratchFolder } from '../support/session.ts';

let engine: DockerEngine;
const open: Open = (options = {}) => openSession({ executor: 'container', engine: engine.address, ...options });

// Containers of Podman do not end with its service: test/podman/engine.test.ts says what comes of it there.
describe.skipIf(!canRunDocker || engineKind() === 'podman')('an engine', () => {
  beforeAll(async () => {
    engine = await DockerEngine.start();
    // One of its own, and so the smallest that will do.
    const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';
    await buildImage(await connectEngine(engine.address), { python, packages: false, version: 'test' });
  }, 120_000);
  afterAll(() => engine?.remove());

  test('that is stopped ends the cell, is named while it is gone, and the session recovers when it is back', async () => {
    const dataDir = await scratchFolder();
    await using session = await open({ dataDir });
    await session.run('kept = [1, 2]');
    await session.save();
    const { result } = await runUntilReady(session, 'print("ready", flush=True)\nwhile True: pass');
    await engine.stop();
    expect(await result).toMatchObject({ status: 'died' });
    await expect(session.run('kept')).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    await engine.restart();
    expect(await session.run('kept')).toMatchObject({ status: 'ok', value: [1, 2], recovered: expect.anything() });
    // What the engine could not be asked to remove is gone too.
    expect(await (await Administrator.of(engine.address)).containersOf(dataDir)).toHaveLength(1);
  }, 120_000);

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
  }, 120_000);

  test('that is gone keeps no session from closing', async () => {
    const session = await open();
    await session.run('1');
    await engine.stop();
    await session.close();
    await engine.restart();
  }, 120_000);
});
