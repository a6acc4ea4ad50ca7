/** What deps do for whoever uses them: add, remove, list, sync, on the host that these tests run on. */

import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { NamespaceCallContext } from '../../../src/namespaces/host-methods.ts';
import { kept, openDeps, openPlace, pythonWith } from '../../support/packages/deps.ts';
import { memoryDeps } from '../../support/packages/deps-store.ts';
import { startIndex } from '../../support/packages/package-index.ts';
import { makeWheel } from '../../support/packages/wheels.ts';
import { processes } from '../../support/processes/processes.ts';

export function depsContract(): void {
  describe('add', () => {
    it('installs a package with its dependencies, and keeps the requirement', async () => {
      const { deps, sets, context } = await openDeps();
      const result = await deps.add('Tiny_A >= 1.0', context);
      expect(result).toMatchObject({ installed: ['tiny-a>=1.0'], failed: [] });
      expect(await deps.list()).toEqual(['tiny-a>=1.0']);
      expect(await deps.current()).toBe(result.set);
      const code = 'import tiny_a, tiny_b\nprint(tiny_a.VERSION, tiny_b.VERSION, tiny_b.__file__)';
      expect(await pythonWith(sets, result.set, code)).toBe(
        `1.0.0 2.1.0 ${join(await sets.folder(), result.set ?? '', 'tiny_b.py')}`,
      );
    });

    it('builds a set of all packages, and does not change the previous set', async () => {
      const { deps, sets, context } = await openDeps();
      const first = await deps.add('tiny-b<2', context);
      const second = await deps.add(['tiny-b', 'tiny-a'], context);
      expect(second.set).not.toBe(first.set);
      expect(await deps.list()).toEqual(['tiny-a', 'tiny-b']);
      const code = 'import tiny_b\nprint(tiny_b.VERSION)';
      expect(await pythonWith(sets, first.set, code)).toBe('1.0.0');
      expect(await pythonWith(sets, second.set, code)).toBe('2.1.0');
    });

    it('installs a set once, whatever its spelling and callers', async () => {
      const place = await openPlace();
      const one = await openDeps({ place });
      const other = await openDeps({ place });
      const first = await one.deps.add(['tiny-a', 'tiny-b>=2'], one.context);
      const asked = place.index.requests.length;
      const second = await other.deps.add(['TINY.B >=2', 'tiny_a'], other.context);
      expect(second.set).toBe(first.set);
      expect(place.index.requests).toHaveLength(asked);
    });

    it('reports progress', async () => {
      const { deps, context, progress } = await openDeps();
      await deps.add('tiny-a', context);
      expect(progress[0]).toMatch(/^Installing tiny-a with pip \d/);
      expect(progress).toContainEqual(expect.stringMatching(/^Collecting tiny-b/));
      expect(progress.at(-1)).toMatch(/^Successfully installed/);
    });

    it('adds those that can be installed and reports the others', async () => {
      const opened = await openDeps();
      const result = await opened.deps.add(['tiny-b', 'no-such-package', 'tiny-a'], opened.context);
      expect(result.installed).toEqual(['tiny-b', 'tiny-a']);
      expect(result.failed).toEqual([
        { requirement: 'no-such-package', reason: expect.stringContaining('No matching distribution found') },
      ]);
      expect(await opened.deps.list()).toEqual(['tiny-a', 'tiny-b']);
      expect(await opened.deps.current()).toBe(result.set);
      expect(await kept(opened)).toEqual({ sets: [result.set], builds: [] });
    });

    it('refuses one package with two conditions, and accepts the same one twice', async () => {
      const { deps, context } = await openDeps();
      await expect(deps.add(['tiny-b', 'Tiny.B>1'], context)).rejects.toMatchObject({ code: 'DEPS_INVALID' });
      expect(await deps.add(['tiny-b', 'Tiny.B'], context)).toMatchObject({ installed: ['tiny-b'] });
    });
  });

  describe('remove', () => {
    it('removes a package from the configuration and the next set, and says what stays', async () => {
      const { deps, sets, context } = await openDeps({ store: memoryDeps('tiny-a', 'tiny-b') });
      const result = await deps.remove('Tiny_A', context);
      expect(result).toMatchObject({ removed: ['tiny-a'], failed: [], note: expect.stringContaining('until') });
      expect(await deps.list()).toEqual(['tiny-b']);
      const names = (await sets.manifest(result.set ?? ''))?.distributions.map(({ name }) => name);
      expect(names).toEqual(['tiny-b']);
    });

    it('leaves no set if no package is left, and says if there was nothing to remove', async () => {
      const { deps, context } = await openDeps({ store: memoryDeps('tiny-b') });
      expect(await deps.remove('tiny-b', context)).toMatchObject({ removed: ['tiny-b'], set: null });
      expect(await deps.remove('tiny-b', context)).toMatchObject({ removed: [], note: expect.stringContaining('not') });
      expect(await deps.current()).toBeUndefined();
    });

    it('removes a package that cannot be installed, also next to another one', async () => {
      const { deps, context } = await openDeps({ store: memoryDeps('gone-one', 'gone-two', 'tiny-b') });
      const result = await deps.remove('gone-one', context);
      expect(result).toMatchObject({ removed: ['gone-one'], failed: [{ requirement: 'gone-two' }] });
      expect(await deps.list()).toEqual(['gone-two', 'tiny-b']);
    });
  });

  describe('sync', () => {
    it('installs configured packages once', async () => {
      const { deps, index, context } = await openDeps({ store: memoryDeps('tiny-a', 'tiny-b>=2') });
      expect(await deps.current()).toBeUndefined();
      const first = await deps.sync(context);
      expect(first).toMatchObject({ installed: ['tiny-a', 'tiny-b>=2'], failed: [] });
      expect(await deps.current()).toBe(first.set);
      await index.down();
      expect(await deps.sync(context)).toEqual(first);
    });

    it('does nothing without configured packages', async () => {
      const { deps, context } = await openDeps();
      expect(await deps.sync(context)).toEqual({ installed: [], failed: [], set: null });
    });
  });

  describe('locked', () => {
    it('refuses add and remove on the host, and allows list and sync', async () => {
      const { deps, context, index } = await openDeps({ allowRuntime: false, store: memoryDeps('tiny-b') });
      const methods = deps.methods();
      const call: NamespaceCallContext = { ...context, whileAsking: (work) => work() };
      for (const [name, params] of [
        ['deps.add', { requirements: ['tiny-a'] }],
        ['deps.remove', { name: 'tiny-b' }],
      ] as const) {
        await expect(methods[name]?.perform(params, call)).rejects.toMatchObject({ code: 'DEPS_LOCKED' });
      }
      expect(index.requests).toEqual([]);
      expect(await methods['deps.list']?.perform({}, call)).toEqual(['tiny-b']);
      expect(await methods['deps.sync']?.perform({}, call)).toMatchObject({ installed: ['tiny-b'] });
    });
  });

  describe('calls of the code', () => {
    it('get plain values, with the path in the sandbox', async () => {
      const { deps, context } = await openDeps();
      const methods = deps.methods();
      const call: NamespaceCallContext = { ...context, whileAsking: (work) => work() };
      const added = await methods['deps.add']?.perform({ requirements: ['tiny-b'] }, call);
      const set = await deps.current();
      expect(added).toEqual({
        installed: ['tiny-b'],
        failed: [],
        set,
        path: expect.stringMatching(`^/packages/[\\w-]+/${set}$`),
      });
      expect(await methods['deps.remove']?.perform({ name: 'tiny-b' }, call)).toEqual({
        ...{ installed: [], failed: [], removed: ['tiny-b'], set: null, path: null },
        note: expect.any(String),
      });
    });

    it.each([
      ['deps.add', { requirements: 'tiny-b' }],
      ['deps.add', { requirements: [] }],
      ['deps.add', { requirements: ['tiny-b'], index: 'http://127.0.0.1:1/' }],
      ['deps.add', { requirements: [1] }],
      ['deps.remove', {}],
      ['deps.list', { allow_runtime: true }],
      ['deps.sync', null],
    ])('are refused if they have another shape: %s %j', async (name, params) => {
      const { deps, context, index } = await openDeps();
      const call: NamespaceCallContext = { ...context, whileAsking: (work) => work() };
      await expect(deps.methods()[name]?.perform(params, call)).rejects.toThrow();
      expect(index.requests).toEqual([]);
    });
  });

  describe('where packages come from', () => {
    it('a folder of wheels, and no index at all', async () => {
      const place = await openPlace();
      const source = { wheelFolders: [place.wheels], noIndex: true };
      const { deps, context } = await openDeps({ place, source });
      expect(await deps.add('tiny-a', context)).toMatchObject({ installed: ['tiny-a'], failed: [] });
      expect(place.index.requests).toEqual([]);
    });

    it('a second index, for what the first does not have', async () => {
      const place = await openPlace();
      const extra = await startIndex(join(place.folder, 'more'));
      await using _closing = { [Symbol.asyncDispose]: () => extra.close() };
      await makeWheel(join(place.folder, 'more'), 'tiny-extra', { requires: ['tiny-b'] });
      const { deps, context } = await openDeps({
        place,
        source: { index: place.index.url, extraIndexes: [extra.url] },
      });
      expect(await deps.add('tiny-extra', context)).toMatchObject({ installed: ['tiny-extra'], failed: [] });
    });

    it('an index with a password, which nobody sees', async () => {
      const place = await openPlace();
      place.index.password = 'joe:s3cr3t/word';
      const seen: string[] = [];
      place.index.before = () => void seen.push(...processes().map(({ command }) => command));
      const url = place.index.url.replace('//', '//joe:s3cr3t%2Fword@');
      const opened = await openDeps({ place, source: { index: url } });
      const added = await opened.deps.add('tiny-a', opened.context);
      expect(added.installed).toEqual(['tiny-a']);
      const failed = await opened.deps.add('no-such-package', opened.context);
      await place.index.down();
      const down = await opened.deps.add('tiny-c', opened.context);
      const manifest = await opened.sets.manifest(added.set ?? '');
      expect(seen.some((command) => command.includes('requirements.txt'))).toBe(true);
      const said = JSON.stringify([seen, opened.progress, added, failed, down, manifest]);
      expect(down.failed[0]?.reason).toContain('Connection refused');
      expect(said).not.toMatch(/s3cr3t/);
    });

    it('is decided by the operator, not by the environment', async () => {
      const { deps, context } = await openDeps();
      const before = { ...process.env };
      Object.assign(process.env, { PIP_INDEX_URL: 'http://127.0.0.1:1/', PIP_NO_INDEX: '1', PYTHONPATH: '/nowhere' });
      try {
        expect(await deps.add('tiny-b', context)).toMatchObject({ installed: ['tiny-b'] });
      } finally {
        process.env = before;
      }
    });
  });
}
