/** What a package set is, once it is built. */

import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openDeps } from '../../support/packages/deps.ts';

export function depsSets(): void {
  it('a set can be read by everybody and changed by nobody, down to its files, and contains no bytecode', async () => {
    const { deps, sets, context } = await openDeps();
    const { set } = await deps.add('tiny-a', context);
    const folder = join(await sets.folder(), set ?? '');
    const names = await readdir(folder, { recursive: true });
    expect(names).toEqual(expect.arrayContaining(['tiny_a.py', 'cella-set.json', 'tiny_a-1.0.0.dist-info/METADATA']));
    expect(names.filter((name) => name.endsWith('.pyc'))).toEqual([]);
    for (const name of ['', ...names]) {
      const { mode, uid } = await lstat(join(folder, name));
      expect([name, (mode & 0o444).toString(8), mode & 0o222, uid]).toEqual([name, '444', 0, process.getuid?.()]);
    }
  });

  it('a set lists its contents', async () => {
    const { deps, sets, context } = await openDeps();
    const { set } = await deps.add('tiny-a', context);
    expect(await sets.manifest(set ?? '')).toMatchObject({
      requirements: ['tiny-a'],
      distributions: [
        { name: 'tiny-a', version: '1.0.0' },
        { name: 'tiny-b', version: '2.1.0' },
      ],
      installer: expect.stringMatching(/^pip \d/),
    });
  });
}
