/** An image whose Python is another version than the host's: kernels run on it, and packages are installed for it. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { connectEngine, type Engine } from '../../src/executors/container/engine.ts';
import { imageFacts } from '../../src/executors/container/image.ts';
import { canRunDocker } from '../support/docker.ts';
import { bareImage } from '../support/images.ts';
import { pyValue } from '../support/namespaces.ts';
import { findOtherPython, OTHER_VERSION } from '../support/other-python.ts';
import { openSession, scratchFolder } from '../support/session.ts';
import { sharedEngine } from '../support/shared-docker.ts';
import { makeWheel } from '../support/wheels.ts';

const path = findOtherPython();
const digits = OTHER_VERSION.replace('.', '');

describe.skipIf(!canRunDocker || path === undefined)(
  `an image of Python ${OTHER_VERSION}`,
  { timeout: 180_000 },
  () => {
    let engine: Engine;
    let image: string;

    beforeAll(async () => {
      engine = await connectEngine(await sharedEngine());
      image = await bareImage(engine, `cella-contract:py${OTHER_VERSION}`, path);
    }, 180_000);

    it('is known as such, and has the kernel compiled for it', async () => {
      const { interpreter, kernel } = await imageFacts(engine, image, await scratchFolder());
      expect(interpreter.version.join('.')).toBe(OTHER_VERSION);
      expect(interpreter.tag).toMatch(new RegExp(`^cp${digits}-`));
      expect(readdirSync(join(kernel, '__pycache__')).every((name) => name.includes(`cpython-${digits}`))).toBe(true);
    });

    it('runs kernels, with checkpoints of both kinds and with packages that fit no other Python', async () => {
      const wheels = join(await scratchFolder(), 'wheels');
      const machine = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
      for (const version of ['cp39', 'cp311', 'cp312', 'cp313']) {
        const tag = `${version}-${version}-manylinux_2_17_${machine}`;
        await makeWheel(wheels, 'tiny', { tag, files: { 'tiny.py': `FOR = "${version}"\n` } });
      }
      const packages = { wheelFolders: [wheels], noIndex: true };
      await using session = await openSession({ executor: 'container', engine: engine.address, image, packages });
      expect(await pyValue(session, 'import sys; "%d.%d" % sys.version_info[:2]')).toBe(OTHER_VERSION);
      expect(await pyValue(session, 'deps.add("tiny")\nimport tiny\ntiny.FOR')).toBe(`cp${digits}`);
      await session.run('kept = [1]\ndef twice(n): return 2 * n');
      await session.checkpoint({ name: 'live' });
      await session.checkpoint({ name: 'durable', durable: true });
      expect(await session.run('kept.append(2)', { transaction: 'rollback_always' })).toMatchObject({ status: 'ok' });
      for (const name of ['live', 'durable']) {
        await session.run('del kept, twice');
        await session.restore(name);
        expect(await pyValue(session, '[kept, twice(21), tiny.FOR]')).toEqual([[1], 42, `cp${digits}`]);
      }
    });
  },
);
