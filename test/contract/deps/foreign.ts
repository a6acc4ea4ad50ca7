/** What is installed for a Python that is not the host's, whoever installs it. */

import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Interpreter } from '../../../src/protocol/environment-spec.ts';
import { kept, openDeps, openPlace, type Place } from '../../support/packages/deps.ts';
import { memoryDeps } from '../../support/packages/deps-store.ts';
import { alpine, old, pyodide } from '../../support/packages/pythons.ts';
import { makeWheel } from '../../support/packages/wheels.ts';

export function foreignContract(searchPath: string, installer: RegExp): void {
  const open = async (python: Interpreter, place?: Place) => {
    const opened = await openDeps({ python: async () => python, searchPath, place: place ?? (await openPlace()) });
    const filesOf = async (set: string | null) =>
      await readdir(join(await opened.sets.folder(), set ?? 'none'), { recursive: true });
    return { ...opened, filesOf };
  };

  it('installs compatible wheels, and says who installed them', async () => {
    const place = await openPlace();
    const tags = [
      'cp312-cp312-musllinux_1_2_x86_64',
      'cp39-cp39-manylinux_2_17_x86_64',
      'cp311-cp311-manylinux_2_17_x86_64',
      'py3-none-any',
    ];
    for (const tag of tags)
      await makeWheel(place.wheels, 'fits', { tag, files: { [`${tag}.txt`]: '' }, requires: ['tiny-b'] });
    for (const [python, tag] of [
      [alpine, tags[0]],
      [old, tags[1]],
      [pyodide, tags[3]],
    ] as const) {
      const { deps, sets, filesOf, context } = await open(python, place);
      const { installed, failed, set } = await deps.add('fits', context);
      expect({ installed, failed }).toEqual({ installed: ['fits'], failed: [] });
      const files = await filesOf(set);
      expect(files.filter((name) => name.endsWith('.txt') && !name.includes('/'))).toEqual([`${tag}.txt`]);
      expect(files).toContain('tiny_b.py');
      expect(await sets.manifest(set ?? '')).toMatchObject({
        tag: python.tag,
        installer: expect.stringMatching(installer),
      });
    }
  });

  it('evaluates markers for that Python, not for the host’s', async () => {
    const place = await openPlace();
    const requires = [
      'for-old; python_version < "3.10"',
      'for-late; python_full_version >= "3.12.4"',
      'for-linux; sys_platform == "linux"',
      'for-web; platform_machine == "wasm32"',
      'for-none; python_version == "3.11"',
    ];
    await makeWheel(place.wheels, 'asks', { requires });
    for (const name of ['for-old', 'for-late', 'for-linux', 'for-web', 'for-none']) await makeWheel(place.wheels, name);
    const names = async (python: Interpreter) => {
      const { deps, sets, context } = await open(python, place);
      const { set } = await deps.add('asks', context);
      return (await sets.manifest(set ?? ''))?.distributions.map(({ name }) => name);
    };
    expect(await names(alpine)).toEqual(['asks', 'for-late', 'for-linux']);
    expect(await names(old)).toEqual(['asks', 'for-linux', 'for-old']);
    expect(await names(pyodide)).toEqual(['asks', 'for-late', 'for-web']);
  });

  it('installs the newest version that runs on it', async () => {
    const place = await openPlace();
    await makeWheel(place.wheels, 'moves', { version: '3.0', requiresPython: '>=3.13' });
    await makeWheel(place.wheels, 'moves', { version: '2.0', requiresPython: '>=3.12.3' });
    await makeWheel(place.wheels, 'moves', { version: '1.0', requiresPython: '!=3.9.0,!=3.9.1,>=3.8' });
    const versions = [];
    for (const python of [alpine, old, pyodide]) {
      const { deps, sets, context } = await open(python, place);
      const { set } = await deps.add('moves', context);
      versions.push((await sets.manifest(set ?? ''))?.distributions[0]?.version);
    }
    expect(versions).toEqual(['2.0', '1.0', '3.0']);
  });

  describe('says the real reason if nothing fits:', () => {
    it.each([
      [
        'native code alone',
        'native',
        'native 2.1.0 has native code (cp314-cp314-manylinux_2_28_x86_64), and in-process runs pure Python only: use subprocess or container',
      ],
      ['a source alone', 'source-only', 'source-only 1.0.0 has no wheel, only a source'],
      ['no such package', 'no-such-package', 'there is no package no-such-package'],
      ['no such version', 'tiny-b>=9', 'no version of tiny-b is >=9: there are 2.1.0, 1.0.0'],
      ['a need with native code', 'needs-native', 'native 2.1.0 has native code'],
      ['native code under a wrong name', 'liar', 'has native code (liar/core.so)'],
    ])('%s', async (_what, wanted, why) => {
      const place = await openPlace();
      await makeWheel(place.wheels, 'native', { version: '2.1.0', tag: 'cp314-cp314-manylinux_2_28_x86_64' });
      await makeWheel(place.wheels, 'needs-native', { requires: ['native>=2'] });
      await makeWheel(place.wheels, 'liar', { files: { 'liar/core.so': 'x' } });
      await writeFile(join(place.wheels, 'source_only-1.0.0.tar.gz'), 'never read');
      const { deps, sets, options, context } = await open(pyodide, place);
      const { installed, failed } = await deps.add(wanted, context);
      expect(installed).toEqual([]);
      expect(failed[0]?.reason).toContain(why);
      expect(failed[0]?.reason).toMatch(/^(?!.*pip)/);
      expect(await deps.list()).toEqual([]);
      expect(await kept({ options, sets })).toEqual({ sets: [], builds: [] });
    });

    it('another libc, or another Python', async () => {
      const place = await openPlace();
      await makeWheel(place.wheels, 'glibc', { tag: 'cp312-cp312-manylinux_2_17_x86_64' });
      await makeWheel(place.wheels, 'late', { requiresPython: '>=3.13' });
      place.index.about = (name) => (name.startsWith('late') ? { requiresPython: '&gt;=3.13' } : {});
      const { deps, context } = await open(alpine, place);
      const { failed } = await deps.add(['glibc', 'late'], context);
      expect(failed.map(({ reason }) => reason)).toEqual([
        'glibc 1.0.0 has no wheel for Python 3.12.4 on musllinux_1_2_x86_64; it has cp312-cp312-manylinux_2_17_x86_64',
        'late 1.0.0 needs Python >=3.13; this is 3.12.4',
      ]);
    });
  });

  it('installs the compatible part of a configuration from others, in each session', async () => {
    const place = await openPlace();
    await makeWheel(place.wheels, 'native', { tag: 'cp312-cp312-musllinux_1_2_x86_64' });
    const store = memoryDeps();
    const others = await openDeps({ python: async () => alpine, searchPath, place, store });
    expect(await others.deps.add(['native', 'tiny-a'], others.context)).toMatchObject({ failed: [] });
    const mine = await openDeps({ python: async () => pyodide, searchPath, place, store });
    expect(await mine.deps.current()).toBeUndefined();
    const { installed, set } = await mine.deps.sync(mine.context);
    expect(installed).toEqual(['tiny-a']);
    const later = await openDeps({ python: async () => pyodide, searchPath, place, store });
    expect(await later.deps.current()).toBe(set);
    expect(await later.deps.status()).toMatchObject({ installed: false });
    await makeWheel(place.wheels, 'tiny-c');
    const added = await later.deps.add('tiny-c', later.context);
    expect(added).toMatchObject({ installed: ['tiny-c'], failed: [], note: expect.stringContaining('native') });
    expect(await later.deps.list()).toEqual(['native', 'tiny-a', 'tiny-c']);
    expect(await mine.deps.current()).toBe(added.set);
    expect((await later.sets.manifest(added.set ?? ''))?.requirements).toEqual(['tiny-a', 'tiny-c']);
    expect((await later.deps.add('nowhere', later.context)).failed[0]?.reason).toContain('nowhere');
    // What came from elsewhere is not taken for it.
    const elsewhere = { wheelFolders: [place.wheels], noIndex: true };
    const other = await openDeps({ python: async () => pyodide, searchPath, place, store, source: elsewhere });
    expect(await other.deps.current()).toBeUndefined();
  });

  it('adds the compatible packages, and leaves out the others', async () => {
    const place = await openPlace();
    await makeWheel(place.wheels, 'native', { tag: 'cp314-cp314-manylinux_2_28_x86_64' });
    const { deps, context } = await open(pyodide, place);
    const { installed, failed } = await deps.add(['tiny-a', 'native'], context);
    expect({ installed, failed: failed.map(({ requirement }) => requirement) }).toEqual({
      installed: ['tiny-a'],
      failed: ['native'],
    });
    expect(await deps.list()).toEqual(['tiny-a']);
  });

  it('keeps the sets of several Pythons side by side, and says for which Python packages are installed', async () => {
    const place = await openPlace();
    const store = memoryDeps();
    const on = (python: Interpreter) => openDeps({ python: async () => python, searchPath, place, store });
    const [first, second] = [await on(alpine), await on(pyodide)];
    await first.deps.add('tiny-a', first.context);
    expect(await first.deps.status()).toEqual({ requirements: ['tiny-a'], python: alpine.tag, installed: true });
    expect(await second.deps.status()).toEqual({ requirements: ['tiny-a'], python: pyodide.tag, installed: false });
    await second.deps.sync(second.context);
    expect((await second.deps.status()).installed).toBe(true);
    expect((await first.deps.status()).installed).toBe(true);
    const folders = await readdir(place.options.folder);
    expect(folders.toSorted()).toEqual(['.building', 'cp312-musl-x86_64', 'cp314-wasm32']);
    // The same Python on another libc is another one.
    const glibc = await on({ ...alpine, platforms: ['manylinux_2_28_x86_64'] });
    expect((await glibc.deps.status()).installed).toBe(false);
  });

  it('builds read-only sets, with scripts for whichever Python finds them', async () => {
    const place = await openPlace();
    const files = { 'says.py': '', 'says-1.0.0.data/scripts/says-it': '#!python\nprint(1)\n' };
    await makeWheel(place.wheels, 'says', { files });
    const { deps, sets, context } = await open(alpine, place);
    const { set } = await deps.add('says', context);
    const script = await readFile(join(await sets.folder(), set ?? '', 'bin', 'says-it'), 'utf8');
    expect(script).toBe('#!/usr/bin/env python3\nprint(1)\n');
    await expect(
      writeFile(join(await sets.folder(), set ?? '', 'says.py'), 'x', { flag: process.getuid?.() === 0 ? 'wx' : 'w' }),
    ).rejects.toThrow();
  });

  it('an index that is down is named, and works when it is back', async () => {
    const place = await openPlace();
    const { deps, context } = await open(pyodide, place);
    await place.index.down();
    const { failed } = await deps.add(['tiny-a', 'tiny-b'], context);
    expect(failed.map(({ reason }) => reason)).toEqual([
      expect.stringContaining('the package index did not answer'),
      expect.stringContaining('the package index did not answer'),
    ]);
    await place.index.up();
    expect(await deps.add('tiny-a', context)).toMatchObject({ installed: ['tiny-a'], failed: [] });
  });

  it('can be stopped by its caller, and leaves nothing behind', async () => {
    const place = await openPlace();
    const asked = Promise.withResolvers<void>();
    const hold = Promise.withResolvers<void>();
    place.index.before = async () => {
      asked.resolve();
      await hold.promise;
    };
    const stop = new AbortController();
    const { deps, sets, options, context } = await openDeps({ python: async () => pyodide, searchPath, place });
    const adding = deps.add('tiny-a', { ...context, signal: stop.signal });
    await asked.promise;
    stop.abort();
    await expect(adding).rejects.toMatchObject({ code: 'ABORTED' });
    hold.resolve();
    expect(await kept({ options, sets })).toEqual({ sets: [], builds: [] });
    expect(await deps.list()).toEqual([]);
  });

  it('has a timeout', async () => {
    const place = await openPlace();
    const hold = Promise.withResolvers<void>();
    place.index.before = () => hold.promise;
    const { deps, context } = await openDeps({ python: async () => pyodide, searchPath, place, timeoutMs: 1500 });
    const { failed } = await deps.add('tiny-a', context);
    hold.resolve();
    expect(failed[0]?.reason).toContain('in time');
  });

  it('refuses a Python whose tag is not a folder name', async () => {
    const { deps, context } = await open({ ...alpine, tag: '../../elsewhere' });
    await expect(deps.add('tiny-a', context)).rejects.toMatchObject({ code: 'PYTHON_NOT_FOUND' });
  });
}
