/** What deps do with bad requirements, bad packages and an index that is gone. */

import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { kept, openDeps, openPlace, pythonWith } from '../../support/packages/deps.ts';
import { memoryDeps } from '../../support/packages/deps-store.ts';
import { makeWheel } from '../../support/packages/wheels.ts';

export function depsFaults(): void {
  it.each([
    'x; rm -rf /',
    'git+https://127.0.0.1/x.git',
    'x @ https://127.0.0.1/x.whl',
    '-r file',
    '--index-url=http://127.0.0.1/',
    'tiny-b\n--index-url http://127.0.0.1/',
    './tiny-b',
    '/etc/passwd',
    'tiny-b==2.1.0+x.whl',
    '$(touch /tmp/x)',
    '',
  ])('%j is refused before anything is started', async (requirement) => {
    const { deps, context, index, options } = await openDeps({ store: memoryDeps('tiny-b') });
    await expect(deps.add(['tiny-a', requirement], context)).rejects.toMatchObject({ code: 'DEPS_INVALID' });
    await expect(deps.remove(requirement, context)).rejects.toMatchObject({ code: 'DEPS_INVALID' });
    expect(await deps.list()).toEqual(['tiny-b']);
    expect(index.requests).toEqual([]);
    expect(existsSync(options.folder)).toBe(false);
  });

  it('a data folder that cannot hold packages is reported as such', async () => {
    const place = await openPlace();
    await writeFile(place.options.folder, 'a file where the folder should be');
    const { deps, context } = await openDeps({ place });
    await expect(deps.add('tiny-b', context)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    expect(await deps.list()).toEqual([]);
  });

  it('an invalid stored requirement reaches no installer', async () => {
    const store = { ...memoryDeps(), list: async () => ['--index-url http://127.0.0.1/'] };
    const { deps, context, index } = await openDeps({ store });
    await expect(deps.sync(context)).rejects.toMatchObject({ code: 'DEPS_INVALID' });
    expect(index.requests).toEqual([]);
  });

  describe('a failed install is reported with the installer’s reason and keeps the previous set:', () => {
    const cases = [
      { name: 'no-such-package', reason: /No matching distribution found for no-such-package/ },
      { name: 'breaks-halfway', reason: /Bad CRC-32 for file 'halfway_two.py'/ },
      { name: 'needs-missing', reason: /No matching distribution found for not-there/ },
      { name: 'takes-our-name', reason: /cannot be stored/ },
      { name: 'source-only', reason: /No matching distribution found for source-only/ },
      { name: 'tiny-b>=9', reason: /from versions: 1\.0\.0, 2\.1\.0/ },
    ];
    it.each(cases)('$name', async ({ name, reason }) => {
      const place = await openPlace();
      const halfway = { 'halfway_one.py': 'x = 1\n', 'halfway_two.py': 'y = 2\n' };
      await makeWheel(place.wheels, 'breaks-halfway', {
        files: halfway,
        damaged: 'halfway_two.py',
        requires: ['tiny-a'],
      });
      await makeWheel(place.wheels, 'needs-missing', { requires: ['not-there'] });
      await makeWheel(place.wheels, 'takes-our-name', { files: { 'cella-set.json': '{}' } });
      await writeFile(join(place.wheels, 'source_only-1.0.tar.gz'), 'would be built');
      const opened = await openDeps({ place });
      const { deps, context, sets } = opened;
      const before = await deps.add('tiny-b', context);
      const result = await deps.add(name, context);
      expect(result).toEqual({
        installed: [],
        failed: [{ requirement: name, reason: expect.stringMatching(reason) }],
        set: before.set,
      });
      expect(await deps.list()).toEqual(['tiny-b']);
      expect(await deps.current()).toBe(before.set);
      expect(await kept(opened)).toEqual({ sets: [before.set], builds: [] });
      expect(await pythonWith(sets, before.set, 'import tiny_b\nprint(tiny_b.VERSION)')).toBe('2.1.0');
    });
  });

  it('an index that is down is named, is asked once for all packages, and works when it is back', async () => {
    const { deps, context, index } = await openDeps();
    await index.down();
    const { installed, failed, set } = await deps.add(['tiny-a', 'tiny-b'], context);
    expect([installed, set]).toEqual([[], null]);
    for (const { reason } of failed) expect(reason).toContain(`did not answer (${index.url}: Connection refused)`);
    expect(failed.map(({ requirement }) => requirement)).toEqual(['tiny-a', 'tiny-b']);
    expect(await deps.list()).toEqual([]);
    await index.up();
    expect(await deps.add(['tiny-a', 'tiny-b'], context)).toMatchObject({
      installed: ['tiny-a', 'tiny-b'],
      failed: [],
    });
  });
}
