/** Images that owe this machine nothing: Debian 11 with its Python 3.9, and a Python that is linked against musl. */

import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { connectEngine, type Engine } from '../../../src/environments/container/engine.ts';
import { imageFacts } from '../../../src/environments/container/image-python.ts';
import { buildFromBase } from '../../../src/environments/container/image-store.ts';
import { newProcessIdentity } from '../../../src/lib/process-identity.ts';
import { openAgent } from '../../support/agents/agent-environment.ts';
import { canRunDocker } from '../../support/docker/docker.ts';
import { hasDebianArchive } from '../../support/docker/foreign/debian-archive.ts';
import { type ForeignRoot, foreignImage, MAKING_MS } from '../../support/docker/foreign/images.ts';
import { NATIVE_AT } from '../../support/docker/foreign/native-module.ts';
import { runIn } from '../../support/docker/images.ts';
import { sharedEngine } from '../../support/docker/shared-docker.ts';
import { containersOf } from '../../support/kernels/container.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { pyValue } from '../../support/namespaces/namespaces.ts';
import { makeWheel } from '../../support/packages/wheels.ts';
import { plainContract } from '../executor/executor.ts';
import { foreignPythonContract, MACHINE } from './image.ts';

/** The Pythons come from Debian's archive, and run in an engine of root's. */
const possible = canRunDocker && hasDebianArchive;

function prepare(root: ForeignRoot) {
  let engine: Engine;
  let image: string;
  beforeAll(async () => {
    engine = await connectEngine(await sharedEngine());
    image = await foreignImage(engine, root);
  }, MAKING_MS);
  return { made: () => ({ engine, image }), ...containersOf(() => image) };
}

/** What `deps.add` says in a kernel of the image. */
const ADD = 'said = deps.add("native")\n[said["installed"], [each["reason"] for each in said["failed"]]]';

describe.skipIf(!possible)('an image of Debian 11, with Python 3.9', { timeout: 180_000 }, () => {
  const { made, open, openWarm, lend } = prepare('bullseye');

  foreignPythonContract({ version: '3.9', libc: 'glibc', image: made });

  it('installs no wheel for a later C library than its own', async () => {
    const wheels = join(await scratchFolder(), 'wheels');
    await makeWheel(wheels, 'native', { version: '2.0.0', tag: `cp39-cp39-manylinux_2_32_${MACHINE}` });
    const session = await open({ packages: { wheelFolders: [wheels], noIndex: true } });
    const why = `native 2.0.0 has no wheel for Python 3.9.2 on manylinux_2_31_${MACHINE}; it has cp39-cp39-manylinux_2_32_${MACHINE}`;
    expect(await pyValue(session, ADD)).toEqual([[], [why]]);
    await makeWheel(wheels, 'native', { version: '1.0.0', tag: `cp39-cp39-manylinux_2_31_${MACHINE}` });
    expect(await pyValue(session, ADD)).toEqual([['native'], []]);
    expect(await pyValue(session, 'import native\nnative.VERSION')).toBe('1.0.0');
  });

  plainContract(openWarm, lend);
});

describe.skipIf(!possible)('an image with musl', { timeout: 180_000 }, () => {
  const { made, open, openWarm, lend } = prepare('musl');

  foreignPythonContract({ version: '3.11', libc: 'musl', image: made });

  it('is identified by the version of its C library', async () => {
    const { engine, image } = made();
    const { interpreter } = await imageFacts(engine, image, await scratchFolder());
    const versions = ['1_2', '1_1', '1_0'].map((version) => `musllinux_${version}_${MACHINE}`);
    expect(interpreter.platforms).toEqual([...versions, `linux_${MACHINE}`]);
    expect(await runIn(engine, image, ['sh', '-c', 'ls /lib'])).toBe(`ld-musl-${MACHINE}.so.1\n`);
  });

  it('refuses wheels for glibc with the reason, and imports wheels for musl', async () => {
    const wheels = join(await scratchFolder(), 'wheels');
    await makeWheel(wheels, 'native', { tag: `cp311-cp311-manylinux_2_17_${MACHINE}` });
    const session = await open({ packages: { wheelFolders: [wheels], noIndex: true } });
    const why = `native 1.0.0 has no wheel for Python 3.11.2 on musllinux_1_2_${MACHINE}; it has cp311-cp311-manylinux_2_17_${MACHINE}`;
    expect(await pyValue(session, ADD)).toEqual([[], [why]]);
    const files = { 'native.so': await nativeModule() };
    await makeWheel(wheels, 'native', { tag: `cp311-cp311-musllinux_1_2_${MACHINE}`, files });
    expect(await pyValue(session, ADD)).toEqual([['native'], []]);
    expect(await pyValue(session, 'import native\nnative.twice(21)')).toBe(42);
    expect(await pyValue(session, 'deps.status()["python"]')).toBe(`cp311-musl-${MACHINE}`);
  });

  /** Compiled beside the Python of the image. */
  async function nativeModule(): Promise<Buffer> {
    const { engine, image } = made();
    const program = `import base64; print(base64.b64encode(open("/${NATIVE_AT}", "rb").read()).decode())`;
    return Buffer.from(await runIn(engine, image, ['python3', '-c', program]), 'base64');
  }

  it('can be the base of a Cella image', async () => {
    const { engine, image } = made();
    const options = { version: 'test', dataDir: await scratchFolder(), owner: newProcessIdentity() };
    const { name, python } = await buildFromBase(engine, image, { ...options, name: 'cella-foreign:based' });
    expect(python).toBe('3.11.2');
    const session = await open({ image: name });
    expect(await pyValue(session, 'import json\njson.__cached__.endswith(".pyc")')).toBe(true);
  });

  it('holds no coding agent, because Node is for glibc', async () => {
    const { engine, image } = made();
    const session = { executor: 'container' as const, engine: engine.address, image };
    const told = {
      code: 'IMAGE_UNUSABLE',
      message: expect.stringMatching(/cella-foreign-musl:test .*libraries of glibc/),
    };
    await expect(openAgent({ session })).rejects.toMatchObject(told);
  });

  plainContract(openWarm, lend);
});
