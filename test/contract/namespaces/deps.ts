/** Packages, as code in a kernel asks for them: real installs from an index on loopback. */

import { describe, expect, it } from 'vitest';
import type { ExecutionEvent } from '../../../src/index.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { lacks } from '../../support/kernels/unsupported.ts';
import { errorOf, newIndex, newStorage, openWith, pyValue } from '../../support/namespaces/namespaces.ts';
import { makeWheel } from '../../support/packages/wheels.ts';
import type { Place } from './namespaces.ts';

export function namespaceDeps(place: Place): void {
  describe('deps in a kernel', () => {
    it('can be imported at once, after a restart, in a fork and in later sessions, with their dependencies', async () => {
      const { index, wheels } = await newIndex();
      await makeWheel(wheels, 'tiny-b', { version: '2.1.0', files: { 'tiny_b.py': 'Y = 41\n' } });
      await makeWheel(wheels, 'tiny-a', {
        files: { 'tiny_a.py': 'import tiny_b\nX = tiny_b.Y + 1\n' },
        requires: ['tiny-b>=2'],
      });
      const options = { packages: { index: index.url }, dataDir: await scratchFolder() };
      const { session, storage } = await openWith(place, options);
      const events: ExecutionEvent[] = [];
      const added = await session.run('deps.add("tiny-a>=1.0")', { onEvent: (event) => events.push(event) });
      expect(added.value).toMatchObject({ installed: ['tiny-a>=1.0'], failed: [] });
      expect(events.filter(({ type }) => type === 'progress')).not.toEqual([]);
      expect(await pyValue(session, 'import tiny_a; tiny_a.X')).toBe(42);
      expect(await pyValue(session, 'deps.list()')).toEqual(['tiny-a>=1.0']);
      const status = { requirements: ['tiny-a>=1.0'], installed: true, python: expect.stringMatching(/^cp3\d+/) };
      expect(await pyValue(session, 'deps.status()')).toEqual(status);
      expect(await session.deps.status()).toEqual(status);
      const child =
        'import subprocess, sys\nsubprocess.run([sys.executable, "-c", "import tiny_a; print(tiny_a.X)"], capture_output=True, text=True).stdout';
      if (!(await lacks(session, 'subprocesses'))) expect(await pyValue(session, child)).toBe('42\n');
      await session.restart();
      expect(await pyValue(session, 'import tiny_a; tiny_a.X')).toBe(42);
      await session.reset();
      expect(await pyValue(session, 'import tiny_a; tiny_a.X')).toBe(42);
      if (!(await lacks(session, 'forks'))) {
        await using forked = await session.fork({ agentKey: 'forked' });
        expect(await pyValue(forked, 'import tiny_a; tiny_a.X')).toBe(42);
      }
      const later = await openWith(place, { ...options, storage, agentKey: 'later', allowRuntimeDeps: false });
      expect(await pyValue(later.session, 'import tiny_a; tiny_a.X')).toBe(42);
    });

    it('are removed by remove: imported modules stay until the kernel restarts, and the result says so', async () => {
      const { index, wheels } = await newIndex();
      await makeWheel(wheels, 'tiny-a');
      await makeWheel(wheels, 'tiny-b');
      const { session } = await openWith(place, { packages: { index: index.url } });
      await pyValue(session, 'deps.add("tiny-a", "tiny-b"); import tiny_a');
      expect(await pyValue(session, 'deps.remove("Tiny_A")')).toMatchObject({
        removed: ['tiny-a'],
        note: expect.stringContaining('restart'),
      });
      expect(await pyValue(session, '[deps.list(), tiny_a.VERSION]')).toEqual([['tiny-b'], '1.0.0']);
      await session.restart();
      expect(await errorOf(session, 'import tiny_a')).toMatchObject({ name: 'ModuleNotFoundError' });
      expect(await pyValue(session, 'import tiny_b; tiny_b.VERSION')).toBe('1.0.0');
    });

    it('that cannot be installed are reported with the reason, and existing ones still work', async () => {
      const { index, wheels } = await newIndex();
      await makeWheel(wheels, 'tiny-a');
      await makeWheel(wheels, 'torn', { damaged: 'torn.py' });
      await makeWheel(wheels, 'needy', { requires: ['nowhere>=3'] });
      const { session, storage } = await openWith(place, { packages: { index: index.url } });
      await pyValue(session, 'deps.add("tiny-a")');
      for (const name of ['unknown-package', 'torn', 'needy', 'tiny-a>=9']) {
        const result = await pyValue(session, `deps.add("${name}")`);
        expect(result).toMatchObject({
          installed: [],
          failed: [{ requirement: name, reason: expect.stringMatching(/\w+/) }],
        });
        expect(await storage.deps.list()).toEqual(['tiny-a']);
      }
      await index.down();
      expect(await pyValue(session, 'deps.add("tiny-b")')).toMatchObject({
        installed: [],
        failed: [{ requirement: 'tiny-b' }],
      });
      expect(await pyValue(session, 'import tiny_a; tiny_a.VERSION')).toBe('1.0.0');
      await session.restart();
      expect(await pyValue(session, 'import tiny_a; tiny_a.VERSION')).toBe('1.0.0');
    });

    it('are requested only by name and version', async () => {
      const { session } = await openWith(place, { packages: { noIndex: true } });
      for (const bad of [
        'x; rm -rf /',
        'git+https://example.org/x',
        '-r file',
        '--index-url=http://x',
        '/tmp/x.whl',
        './x',
        'x @ http://y',
        '$(id)',
        '',
        'a\\nb',
        'x --pre',
      ]) {
        expect([bad, await errorOf(session, `deps.add("${bad}")`)]).toEqual([
          bad,
          expect.objectContaining({ name: 'CellaValueError' }),
        ]);
      }
    });

    it('run .pth code only in the sandbox', async () => {
      const { index, wheels } = await newIndex();
      const secret = `${await scratchFolder()}/ran-on-the-host`;
      const pth = `import os; os.environ["PTH_RAN_AS"] = str(os.getuid()); open(${JSON.stringify(secret)}, "w") if os.path.isdir(os.path.dirname(${JSON.stringify(secret)})) else None\n`;
      await makeWheel(wheels, 'sneaky', { files: { 'sneaky.py': '', 'sneaky.pth': pth } });
      const { session } = await openWith(place, { packages: { index: index.url } });
      expect(await pyValue(session, 'deps.add("sneaky")')).toMatchObject({ installed: ['sneaky'] });
      expect(await pyValue(session, 'import os; os.environ["PTH_RAN_AS"] == str(os.getuid())')).toBe(true);
      const { existsSync } = await import('node:fs');
      expect(existsSync(secret)).toBe(false);
      expect(process.env.PTH_RAN_AS).toBeUndefined();
    });

    it('cannot be changed by code that uses them', async () => {
      const { index, wheels } = await newIndex();
      await makeWheel(wheels, 'tiny-a');
      const { session } = await openWith(place, { packages: { index: index.url } });
      await pyValue(session, 'deps.add("tiny-a"); import tiny_a');
      expect(await errorOf(session, 'open(tiny_a.__file__, "a")')).toMatchObject({
        name: expect.stringMatching(/PermissionError|OSError/),
      });
    });

    it('in a requested version take precedence over those of the interpreter', async () => {
      const { index, wheels } = await newIndex();
      await makeWheel(wheels, 'shadow', { files: { 'ipykernel.py': 'WHOSE = "mine"\n' } });
      const { session } = await openWith(place, { packages: { index: index.url } });
      expect(await pyValue(session, 'deps.add("shadow"); import ipykernel; ipykernel.WHOSE')).toBe('mine');
    });
  });

  describe('deps of a session', () => {
    it('that were configured before are installed at its start, if the option says so', async () => {
      const { index, wheels } = await newIndex();
      await makeWheel(wheels, 'tiny-a');
      const storage = await newStorage(place);
      await storage.deps.add('tiny-a');
      const packages = { index: index.url };
      const dataDir = await scratchFolder();
      const without = await openWith(place, { storage, packages, dataDir });
      expect(await pyValue(without.session, 'deps.list()')).toEqual(['tiny-a']);
      expect(await errorOf(without.session, 'import tiny_a')).toMatchObject({ name: 'ModuleNotFoundError' });
      const told: string[] = [];
      const onProgress = (text: string) => told.push(text);
      const synced = await openWith(place, {
        storage,
        packages,
        dataDir,
        agentKey: 'b',
        syncDepsOnStart: true,
        onProgress,
      });
      expect(await pyValue(synced.session, 'import tiny_a; tiny_a.VERSION')).toBe('1.0.0');
      expect(told).not.toEqual([]);
      expect(await pyValue(without.session, 'deps.sync(); import tiny_a; tiny_a.VERSION')).toBe('1.0.0');
    });

    it('that cannot be installed at its start are reported, and do not prevent the start', async () => {
      const storage = await newStorage(place);
      await storage.deps.add('nowhere');
      const told: string[] = [];
      const { session } = await openWith(place, {
        storage,
        packages: { noIndex: true },
        syncDepsOnStart: true,
        onProgress: (text) => told.push(text),
      });
      expect(told.join('\n')).toContain('nowhere could not be installed');
      expect(await pyValue(session, '1 + 1')).toBe(2);
    });

    it('are locked by the option; list and sync still work', async () => {
      const { index, wheels } = await newIndex();
      await makeWheel(wheels, 'tiny-a');
      const storage = await newStorage(place);
      await storage.deps.add('tiny-a');
      const { session } = await openWith(place, { storage, packages: { index: index.url }, allowRuntimeDeps: false });
      expect(await errorOf(session, 'deps.add("tiny-a")')).toMatchObject({ name: 'CellaPermissionError' });
      expect(await errorOf(session, 'deps.remove("tiny-a")')).toMatchObject({ name: 'CellaPermissionError' });
      expect(await pyValue(session, 'deps.list()')).toEqual(['tiny-a']);
      expect(await pyValue(session, 'deps.sync()')).toMatchObject({ installed: ['tiny-a'], failed: [] });
      expect(await pyValue(session, 'import tiny_a; tiny_a.VERSION')).toBe('1.0.0');
      await expect(session.deps.add('tiny-a')).rejects.toMatchObject({ code: 'DEPS_LOCKED' });
      expect(await storage.deps.list()).toEqual(['tiny-a']);
    });
  });
}
