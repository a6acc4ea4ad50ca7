/** Containers of a pool: each agent key has its own, kept warm, and gives its place up without losing a name. */

import { expect, onTestFinished, test } from 'vitest';
import { KernelPool } from '../../../src/index.ts';
import '../../support/kernels/container.ts';
import { Administrator } from '../../support/docker/containers.ts';
import { canRunDocker } from '../../support/docker/docker.ts';
import { sharedEngineWithImage } from '../../support/docker/shared-docker.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { shareCache } from '../../support/run/shared-cache.ts';

test.skipIf(!canRunDocker)(
  'a pool keeps the container of a key while it has room, and the variables when it has none',
  async () => {
    const engine = await sharedEngineWithImage();
    const dataDir = shareCache(await scratchFolder());
    const pool = new KernelPool({ maxKernels: 1, session: { executor: 'container', engine, dataDir } });
    onTestFinished(() => pool.shutdown());
    const admin = await Administrator.of(engine);
    const one = await pool.acquire('one');
    await one.run('x = [1]');
    const { id } = await admin.only(dataDir);
    pool.release('one');
    expect(await pool.acquire('one')).toBe(one);
    expect(await one.run('x')).toMatchObject({ value: [1] });
    expect((await admin.only(dataDir)).id).toBe(id);
    pool.release('one');
    const two = await pool.acquire('two');
    expect(await two.run('"x" in dir()')).toMatchObject({ value: false });
    expect((await admin.only(dataDir)).id).not.toBe(id);
    pool.release('two');
    expect(await (await pool.acquire('one')).run('x')).toMatchObject({ value: [1] });
  },
);
