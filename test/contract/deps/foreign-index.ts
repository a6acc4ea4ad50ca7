/** What an index may do to the resolver in here: speak either language, lie, send it away, or never end. */

import { mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { removeFolder } from '../../../src/environments/files/remove-tree.ts';
import { PackageSource } from '../../../src/namespaces/deps/package-source.ts';
import { type BuiltInInstall, installBuiltIn } from '../../../src/namespaces/deps/resolver/install-wheels.ts';
import { openDeps, openPlace, type Place } from '../../support/packages/deps.ts';
import { startIndex } from '../../support/packages/package-index.ts';
import { pyodide } from '../../support/packages/pythons.ts';
import { makeWheel } from '../../support/packages/wheels.ts';

async function install(place: Place, requirement: string, more: Partial<BuiltInInstall> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'cella-own-'));
  onTestFinished(() => removeFolder(folder));
  const source = PackageSource.parse({ index: place.index.url });
  const own = join(folder, 'own');
  const failure = await installBuiltIn(
    { requirements: [requirement], interpreter: pyodide, source, timeoutMs: 60_000, folder: own, ...more },
    { signal: new AbortController().signal, progress: () => {} },
  );
  return { failure, names: (await readdir(join(own, 'target'))).toSorted() };
}

const metadataOf = (name: string, ...requires: string[]) =>
  [
    'Metadata-Version: 2.1',
    `Name: ${name}`,
    'Version: 1.0.0',
    ...requires.map((one) => `Requires-Dist: ${one}`),
    '',
  ].join('\n');

export function foreignIndex(): void {
  describe.each(['html', 'json'] as const)('in %s', (form) => {
    it('is understood, with a package’s dependencies', async () => {
      const place = await openPlace();
      place.index.form = form;
      const { failure, names } = await install(place, 'tiny-a');
      expect(failure).toBeUndefined();
      expect(names).toEqual(['tiny_a-1.0.0.dist-info', 'tiny_a.py', 'tiny_b-2.1.0.dist-info', 'tiny_b.py']);
    });

    it('can say that a version was withdrawn, or is for another Python', async () => {
      const place = await openPlace();
      place.index.form = form;
      for (const version of ['1.0', '2.0', '3.0']) await makeWheel(place.wheels, 'a', { version, requiresPython: '' });
      const late = form === 'html' ? '&gt;=3.99' : '>=3.99';
      place.index.about = (name) =>
        ({ 'a-3.0-py3-none-any.whl': { yanked: true }, 'a-2.0-py3-none-any.whl': { requiresPython: late } })[name] ??
        {};
      expect((await install(place, 'a')).names).toContain('a-1.0.dist-info');
      expect((await install(place, 'a==3.0')).names).toContain('a-3.0.dist-info');
    });

    it('can serve metadata separately, so that an unsuitable version is not downloaded', async () => {
      const place = await openPlace();
      place.index.form = form;
      const metadata = metadataOf('a', 'tiny-b>=2');
      await makeWheel(place.wheels, 'a', { metadata });
      await makeWheel(place.wheels, 'a', { version: '2.0' });
      const newer = metadata.replace('1.0.0', '2.0').replace('tiny-b>=2', 'no-such-package');
      place.index.about = (name) =>
        ({ 'a-1.0.0-py3-none-any.whl': { metadata }, 'a-2.0-py3-none-any.whl': { metadata: newer } })[name] ?? {};
      const { failure, names } = await install(place, 'a');
      expect(failure).toBeUndefined();
      expect(names).toContain('a-1.0.0.dist-info');
      expect(place.index.requests).not.toContain('/files/a-2.0-py3-none-any.whl');
    });

    it('is refused if a file differs from what it promised', async () => {
      const place = await openPlace();
      place.index.form = form;
      place.index.about = () => ({ sha256: 'ab'.repeat(32) });
      const { failure, names } = await install(place, 'tiny-b');
      expect(failure?.reason).toContain(
        'tiny_b-2.1.0-py3-none-any.whl differs from what the package index said: its hash is different',
      );
      expect(names).toEqual([]);
    });
  });

  it('is refused if a wheel differs from what it said', async () => {
    const place = await openPlace();
    await makeWheel(place.wheels, 'a', { metadata: metadataOf('a', 'tiny-b') });
    place.index.about = (name) => (name.startsWith('a-') ? { metadata: metadataOf('a') } : {});
    const { failure } = await install(place, 'a');
    expect(failure?.reason).toContain('differs from what the package index said');
  });

  it('may send to another host, which never sees the password', async () => {
    const place = await openPlace();
    const other = await startIndex(place.wheels);
    onTestFinished(() => other.close());
    place.index.password = 'joe:secret';
    place.index.elsewhere = (path) => (path.startsWith('/files/') ? new URL(path, other.url).href : undefined);
    const index = place.index.url.replace('//', '//joe:secret@');
    const { failure, names } = await install(place, 'tiny-a', { source: PackageSource.parse({ index }) });
    expect(failure).toBeUndefined();
    expect(names).toContain('tiny_a.py');
    expect(place.index.knownUsers).toContain('/simple/tiny-a/');
    expect(other.requests).toContain('/files/tiny_a-1.0.0-py3-none-any.whl');
    expect(other.knownUsers).toEqual([]);
    const wrong = await install(place, 'tiny-a', {
      source: PackageSource.parse({ index: index.replace('secret', 'wrong') }),
    });
    expect(wrong.failure?.reason).toContain('answered 401');
    expect(wrong.failure?.reason).not.toContain('wrong');
  });

  it.each([
    ['in a circle', (path: string) => path, 'in endless redirects'],
    ['to a file of this machine', () => 'file:///etc/passwd', 'not allowed'],
    ['nowhere', () => 'http://', 'not allowed'],
  ])('that sends %s is told', async (_where, elsewhere, why) => {
    const place = await openPlace();
    place.index.elsewhere = elsewhere;
    expect((await install(place, 'tiny-a')).failure?.reason).toContain(why);
  });

  it.each([
    ['a page', { pageBytes: 100 }],
    ['a wheel', { wheelBytes: 100 }],
    ['all of it', { totalBytes: 900 }],
  ])('is given up if it sends too much: %s', async (_what, limits) => {
    const { failure, names } = await install(await openPlace(), 'tiny-a', { limits });
    expect(failure?.reason).toMatch(/larger than \d+ bytes/);
    expect(names).toEqual([]);
  });

  it('is given up if it sends nothing for too long', async () => {
    const place = await openPlace();
    const hold = Promise.withResolvers<void>();
    place.index.before = () => hold.promise;
    const { failure } = await install(place, 'tiny-a', { limits: { idleTimeoutMs: 200 } });
    hold.resolve();
    expect(failure?.reason).toContain('no data arrived for 200 ms');
    expect(failure?.scope).toBe('all');
  });

  it('can be combined with a second one, and with folders', async () => {
    const place = await openPlace();
    const [wheels, folder] = [join(place.folder, 'other'), join(place.folder, 'more')];
    await makeWheel(wheels, 'second', { requires: ['third', 'tiny-b'] });
    await makeWheel(folder, 'third');
    const other = await startIndex(wheels);
    onTestFinished(() => other.close());
    const source = { index: place.index.url, extraIndexes: [other.url], wheelFolders: [folder] };
    const { deps, context } = await openDeps({ place, python: async () => pyodide, source });
    expect(await deps.add('second', context)).toMatchObject({ installed: ['second'], failed: [] });
  });

  it('is not used with `noIndex`', async () => {
    const place = await openPlace();
    const source = PackageSource.parse({ wheelFolders: [place.wheels], noIndex: true });
    expect((await install(place, 'tiny-a', { source })).names).toContain('tiny_b.py');
    expect((await install(place, 'no-such', { source })).failure?.reason).toBe(
      `there is no package no-such (${place.wheels})`,
    );
    expect(place.index.requests).toEqual([]);
  });

  it('a missing folder of wheels is reported', async () => {
    const place = await openPlace();
    const source = PackageSource.parse({ wheelFolders: ['/no/such/folder'], noIndex: true });
    expect((await install(place, 'tiny-a', { source })).failure?.reason).toContain('/no/such/folder');
  });
}
