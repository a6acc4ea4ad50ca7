/** Installs that end in the middle: nothing is left of them. */

import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { kept, openDeps, openPlace } from '../../support/packages/deps.ts';
import { processes } from '../../support/processes/processes.ts';

const installers = (folder: string) => processes().filter(({ command }) => command.includes(folder));

export function depsStops(): void {
  it('by its caller leaves no process, folder or requirement, and the next install works', async () => {
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

  it('by closing the sets stays stopped', async () => {
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
}
