/** What deps do with bad requirements, bad packages, an index that is gone, and ends in the middle. */

import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { kept, openDeps, openPlace, pythonWith } from '../support/deps.ts';
import { memoryDeps } from '../support/deps-store.ts';
import { processes } from '../support/processes.ts';
import { makeWheel } from '../support/wheels.ts';

const installers = (folder: string) => processes().filter(({ command }) => command.includes(folder));

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

  it('a stored requirement that is none reaches no installer', async () => {
    const store = { ...memoryDeps(), list: async () => ['--index-url http://127.0.0.1/'] };
    const { deps, context, index } = await openDeps({ store });
    await expect(deps.sync(context)).rejects.toMatchObject({ code: 'DEPS_INVALID' });
    expect(index.requests).toEqual([]);
  });

  describe('a failed install is reported with the installer’s reason and leaves the old set:', () => {
    const cases = [
      { name: 'no-such-package', reason: /No matching distribution found for no-such-package/ },
      { name: 'breaks-halfway', reason: /Bad CRC-32 for file 'halfway_two.py'/ },
      { name: 'needs-missing', reason: /No matching distribution found for not-there/ },
      { name: 'takes-our-name', reason: /cannot be kept/ },
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

  it('an index that is down is named, is asked once for all, and works when it is back', async () => {
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

  it('code in a .pth file and in modules that Python loads by itself does not run on the host', async () => {
    const place = await openPlace();
    const open = join(place.folder, 'open');
    await mkdir(open);
    await chmod(open, 0o777); // so that the installer's user could leave the mark too
    const mark = join(open, 'it-ran');
    const code = `open(${JSON.stringify(mark)}, 'w').close()`;
    const files = { 'evil.pth': `import os; ${code}\n`, 'evil.py': `${code}\n`, 'sitecustomize.py': `${code}\n` };
    await makeWheel(place.wheels, 'evil', { files });
    const { deps, sets, context } = await openDeps({ place });
    const { installed, set } = await deps.add('evil', context);
    await deps.add('tiny-b', context);
    await deps.sync(context);
    expect(installed).toEqual(['evil']);
    expect(existsSync(mark)).toBe(false);
    // Where a kernel would take it, it does run: the file is one that could have.
    const path = join(await sets.folder(), set ?? '');
    await pythonWith(sets, set, `import site\nsite.addsitedir(${JSON.stringify(path)})`);
    expect(existsSync(mark)).toBe(true);
  });

  it.each(['setup.py', 'pyproject.toml'])('a source that a wheel names by its URL is not built: %s', async (kind) => {
    const place = await openPlace();
    const open = join(place.folder, 'open');
    await mkdir(open);
    await chmod(open, 0o777); // so that the installer's user could leave the mark
    const mark = join(open, 'it-ran');
    const source = join(place.folder, 'evil-source');
    await mkdir(source);
    const code = `open(${JSON.stringify(mark)}, 'w').close()\n`;
    await writeFile(join(source, 'setup.py'), code);
    await writeFile(join(source, 'backend.py'), code);
    const backend = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n';
    if (kind === 'pyproject.toml') await writeFile(join(source, kind), backend);
    await makeWheel(place.wheels, 'names-source', { requires: [`evil-source @ file://${source}`] });
    const { deps, context } = await openDeps({ place });
    const { installed, failed } = await deps.add('names-source', context);
    expect(installed).toEqual([]);
    expect(failed[0]?.reason).toContain('would have to be built from source');
    expect(existsSync(mark)).toBe(false);
  });

  describe('an install that is stopped', () => {
    it('by whoever asked for it leaves no process, folder or requirement, and the next one works', async () => {
      const place = await openPlace();
      const stop = new AbortController();
      const reached = Promise.withResolvers<void>();
      place.index.before = (path) => {
        if (!path.startsWith('/files/')) return;
        reached.resolve();
        return new Promise(() => {});
      };
      const opened = await openDeps({ place, signal: stop.signal });
      const adding = opened.deps.add('tiny-a', opened.context);
      await reached.promise;
      const [build = ''] = (await kept(opened)).builds;
      const scratch = await readFile(join(opened.options.folder, '.building', build, 'installer-folder'), 'utf8');
      expect(await readdir(scratch)).toContain('requirements.txt');
      expect(installers(scratch)).not.toEqual([]);
      stop.abort();
      await expect(adding).rejects.toMatchObject({ code: 'ABORTED' });
      expect(installers(scratch)).toEqual([]);
      expect(existsSync(scratch)).toBe(false);
      expect(await kept(opened)).toEqual({ sets: [], builds: [] });
      expect(await opened.deps.list()).toEqual([]);
      delete place.index.before;
      const again = await openDeps({ place });
      expect(await again.deps.add('tiny-a', again.context)).toMatchObject({ installed: ['tiny-a'] });
    });

    it('by its time limit is reported as failed', async () => {
      const place = await openPlace();
      place.index.before = () => new Promise(() => {});
      const opened = await openDeps({ place, timeoutMs: 1500 });
      const { failed, installed } = await opened.deps.add(['tiny-a', 'tiny-b'], opened.context);
      expect(installed).toEqual([]);
      for (const { reason } of failed) expect(reason).toContain('did not end in time');
      expect(await kept(opened)).toEqual({ sets: [], builds: [] });
    });

    it('by the end of the sets is stopped for good', async () => {
      const place = await openPlace();
      const reached = Promise.withResolvers<void>();
      place.index.before = () => {
        reached.resolve();
        return new Promise(() => {});
      };
      const opened = await openDeps({ place });
      const adding = opened.deps.add('tiny-b', opened.context);
      await reached.promise;
      await Promise.all([expect(adding).rejects.toMatchObject({ code: 'ABORTED' }), opened.sets.close()]);
      expect(await kept(opened)).toEqual({ sets: [], builds: [] });
    });
  });
}
