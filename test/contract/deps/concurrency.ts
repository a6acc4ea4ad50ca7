/** Several who change the packages at once, in one process and in more, and one that is killed in the middle. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { InstalledDeps } from '../../../src/namespaces/deps/deps-namespace.ts';
import { kept, openDeps, openPlace, type Place } from '../../support/packages/deps.ts';
import { folderDeps, memoryDeps } from '../../support/packages/deps-store.ts';
import { processes } from '../../support/processes/processes.ts';

const program = fileURLToPath(new URL('../../support/packages/deps-child.ts', import.meta.url));

function startChild(place: Place, ...requirements: string[]): ChildProcess {
  const args = [program, JSON.stringify(place.options), join(place.folder, 'store'), ...requirements];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

async function addElsewhere(place: Place, ...requirements: string[]): Promise<InstalledDeps> {
  const { stdout } = startChild(place, ...requirements);
  return JSON.parse(stdout ? await text(stdout) : '');
}

export function depsTogether(): void {
  it('two adds at once in one process lose nothing', async () => {
    const { deps, sets, context } = await openDeps();
    const results = await Promise.all([deps.add('tiny-a', context), deps.add('tiny-b<3', context)]);
    expect(results.map(({ installed }) => installed)).toEqual([['tiny-a'], ['tiny-b<3']]);
    expect(await deps.list()).toEqual(['tiny-a', 'tiny-b<3']);
    const current = await deps.current();
    expect((await sets.manifest(current ?? ''))?.requirements).toEqual(['tiny-a', 'tiny-b<3']);
  });

  it('two processes that build the same set get one set', async () => {
    const place = await openPlace();
    const [one, other] = await Promise.all([addElsewhere(place, 'tiny-a'), addElsewhere(place, 'tiny-a')]);
    expect(one).toEqual(other);
    expect(one).toMatchObject({ installed: ['tiny-a'], failed: [] });
    const opened = await openDeps({ place });
    expect(await kept(opened)).toEqual({ sets: [one.set], builds: [] });
  });

  it('two processes that add different packages keep both, and build a set with both', async () => {
    const place = await openPlace();
    const results = await Promise.all([addElsewhere(place, 'tiny-a'), addElsewhere(place, 'tiny-b<3')]);
    expect(results.map(({ installed }) => installed)).toEqual([['tiny-a'], ['tiny-b<3']]);
    const { deps } = await openDeps({ place, store: folderDeps(join(place.folder, 'store')) });
    expect(await deps.list()).toEqual(['tiny-a', 'tiny-b<3']);
    expect(results.map(({ set }) => set)).toContain(await deps.current());
  });

  it('a package that conflicts with one that another process has just added is taken back', async () => {
    const inner = memoryDeps();
    const add = async (requirement: string) => {
      await inner.add('tiny-b<2');
      return await inner.add(requirement);
    };
    const { deps, context } = await openDeps({ store: { ...inner, add } });
    const result = await deps.add('tiny-a', context);
    expect(result).toMatchObject({ installed: [], failed: [{ requirement: 'tiny-a' }] });
    expect(result.failed[0]?.reason).toMatch(/conflicting dependencies|ResolutionImpossible/);
    expect(await deps.list()).toEqual(['tiny-b<2']);
  });

  it('the unfinished set of a killed process is removed by the next one', async () => {
    const place = await openPlace();
    const reached = Promise.withResolvers<void>();
    place.index.before = () => {
      reached.resolve();
      return new Promise(() => {});
    };
    const child = startChild(place, 'tiny-a');
    await reached.promise;
    const opened = await openDeps({ place });
    const [build = ''] = (await kept(opened)).builds;
    const scratch = await readFile(join(place.options.folder, '.building', build, 'installer-folder'), 'utf8');
    child.kill('SIGKILL');
    await once(child, 'exit');
    const installers = () => processes().filter(({ command }) => command.includes(scratch));
    await vi.waitFor(() => expect(installers()).toEqual([]), { timeout: 20_000 });
    expect(existsSync(scratch)).toBe(true);
    delete place.index.before;
    const { set } = await opened.deps.add('tiny-b', opened.context);
    expect(existsSync(scratch)).toBe(false);
    expect(await kept(opened)).toEqual({ sets: [set], builds: [] });
  });
}
