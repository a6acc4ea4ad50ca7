/** An engine that a file has to itself, so that it can be stopped and held up, and what any kind of engine must bear. */

import type Docker from 'dockerode';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectEngine } from '../../../src/environments/container/engine.ts';
import { buildImage } from '../../../src/environments/container/image-store.ts';
import { Administrator } from '../../support/docker/containers.ts';
import { DockerEngine, engineKind } from '../../support/docker/docker.ts';
import { type Open, openSession, scratchFolder } from '../../support/kernels/session.ts';

export interface OwnEngine {
  readonly engine: () => DockerEngine;
  readonly open: Open;
  readonly containersOf: (dataDir: string) => Promise<Docker.ContainerInfo[]>;
  /** The one container of a data folder. */
  readonly containerOf: (dataDir: string) => Promise<Docker.Container>;
}

/** Started for the suite that asks, with the smallest image that will do, and removed after it. */
export function ownEngine(kind = engineKind()): OwnEngine {
  let engine: DockerEngine;
  beforeAll(async () => {
    engine = await DockerEngine.start(kind);
    const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';
    await buildImage(await connectEngine(engine.address), { python, packages: false, version: 'test' });
  }, 300_000);
  afterAll(() => engine?.remove());
  const admin = async () => await Administrator.of(engine.address);
  return {
    engine: () => engine,
    open: (options = {}) => openSession({ executor: 'container', engine: engine.address, ...options }),
    containersOf: async (dataDir) => await (await admin()).containersOf(dataDir),
    containerOf: async (dataDir) => await (await admin()).only(dataDir),
  };
}

/** What is the same whether containers end with their engine or not. */
export function engineFaults({ engine, open, containersOf }: OwnEngine): void {
  test('that hangs delays no cell and no closing session, and new sessions get an error that names it', async () => {
    const session = await open();
    await session.run('x = 1');
    await engine().freeze();
    try {
      expect(await session.run('x')).toMatchObject({ value: 1 });
      await expect(open()).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
      await session.close();
    } finally {
      engine().thaw();
    }
  });

  test('that is gone prevents no session from closing, and the next process removes the container', async () => {
    const dataDir = await scratchFolder();
    const session = await open({ dataDir });
    await session.run('1');
    const [left] = await containersOf(dataDir);
    // One that is stopped may still remove what ends with it.
    await engine().kill();
    await session.close();
    await engine().restart();
    await using next = await open({ dataDir });
    await next.run('1');
    const found = await containersOf(dataDir);
    expect(found).toHaveLength(1);
    expect(found[0]?.Id).not.toBe(left?.Id);
  });
}
