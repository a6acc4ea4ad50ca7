/** What an image whose Python is not the host's must do: kernels run on it, and packages are installed for it. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Engine } from '../../../src/environments/container/engine.ts';
import { imageFacts } from '../../../src/environments/container/image-python.ts';
import { openSession, scratchFolder } from '../../support/kernels/session.ts';
import { pyValue } from '../../support/namespaces/namespaces.ts';
import { makeWheel } from '../../support/packages/wheels.ts';

export const MACHINE = process.arch === 'arm64' ? 'aarch64' : 'x86_64';

export interface ForeignPython {
  /** `3.9` */
  readonly version: string;
  readonly libc: 'glibc' | 'musl';
  readonly image: () => { readonly engine: Engine; readonly image: string };
}

export function foreignPythonContract({ version, libc, image: made }: ForeignPython): void {
  const digits = version.replace('.', '');
  const fitting = `cp${digits}-${libc === 'musl' ? 'musllinux_1_1' : 'manylinux_2_17'}`;

  it('is identified, and gets the kernel compiled for it', async () => {
    const { engine, image } = made();
    const { interpreter, kernel } = await imageFacts(engine, image, await scratchFolder());
    expect(interpreter.version.join('.')).toBe(version);
    expect(interpreter.tag).toBe(`cp${digits}-${libc === 'musl' ? 'musl-' : ''}${MACHINE}`);
    const kinds = new Set(interpreter.platforms.map((each) => each.replace(/[_\d].*$/, '')));
    expect([...kinds]).toEqual([libc === 'musl' ? 'musllinux' : 'manylinux', 'linux']);
    expect(readdirSync(join(kernel, '__pycache__')).every((name) => name.includes(`cpython-${digits}`))).toBe(true);
  });

  it('runs kernels, with both kinds of checkpoints and with packages that fit no other Python', async () => {
    const { engine, image } = made();
    const wheels = join(await scratchFolder(), 'wheels');
    for (const python of ['cp39', 'cp311', 'cp312', 'cp313']) {
      for (const platform of ['manylinux_2_17', 'musllinux_1_1']) {
        const tag = `${python}-${python}-${platform}_${MACHINE}`;
        await makeWheel(wheels, 'tiny', { tag, files: { 'tiny.py': `FOR = "${python}-${platform}"\n` } });
      }
    }
    const packages = { wheelFolders: [wheels], noIndex: true };
    await using session = await openSession({ executor: 'container', engine: engine.address, image, packages });
    expect(await pyValue(session, 'import sys; "%d.%d" % sys.version_info[:2]')).toBe(version);
    expect(await pyValue(session, 'deps.add("tiny")\nimport tiny\ntiny.FOR')).toBe(fitting);
    await session.run('kept = [1]\ndef twice(n): return 2 * n');
    await session.checkpoint({ name: 'live' });
    await session.checkpoint({ name: 'durable', durable: true });
    expect(await session.run('kept.append(2)', { transaction: 'rollback_always' })).toMatchObject({ status: 'ok' });
    for (const name of ['live', 'durable']) {
      await session.run('del kept, twice');
      await session.restore(name);
      expect(await pyValue(session, '[kept, twice(21), tiny.FOR]')).toEqual([[1], 42, fitting]);
    }
  });
}
