/** Deps: one requirement for each package, however it is spelled. */

import { expect, it } from 'vitest';
import { failureOf, type OpenStorage, onePlace } from './samples.ts';

export function depsContract(open: OpenStorage): void {
  it('are listed by package, in one spelling, in another storage too', async () => {
    const again = onePlace(open);
    const { deps } = await again();
    expect(await deps.list()).toEqual([]);
    expect(await deps.add('Zope.Interface')).toBe(true);
    expect(await deps.add('requests [socks] >= 2.0, <3')).toBe(true);
    expect(await deps.add('a')).toBe(true);
    expect(await (await again()).deps.list()).toEqual(['a', 'requests[socks]>=2.0,<3', 'zope-interface']);
  });

  it('have one requirement each', async () => {
    const { deps } = await onePlace(open)();
    expect(await deps.add('Foo_Bar>=1')).toBe(true);
    expect(await deps.add('foo.bar >= 1')).toBe(false);
    expect(await deps.add('foo-bar==2')).toBe(true);
    expect(await deps.list()).toEqual(['foo-bar==2']);
  });

  it('are removed by name, however it is spelled', async () => {
    const { deps } = await onePlace(open)();
    await deps.add('foo-bar==2');
    expect(await deps.remove('Foo.Bar')).toBe(true);
    expect(await deps.remove('foo-bar')).toBe(false);
    expect(await deps.list()).toEqual([]);
  });

  it('are all kept if several callers add at once', async () => {
    const again = onePlace(open);
    const all = [(await again()).deps, (await again()).deps];
    const names = Array.from({ length: 30 }, (_, index) => `pkg-${String(index).padStart(2, '0')}`);
    await Promise.all(names.map((name, index) => all[index % 2]?.add(name)));
    expect(await all[0]?.list()).toEqual(names);
  });

  it.each(['x; rm -rf /', 'git+https://example.org/x', '-r file', '', '../x', 'a @ https://x'])(
    'refuse %j',
    async (text) => {
      const { deps } = await onePlace(open)();
      expect((await failureOf(deps.add(text))).code).toBe('DEPS_INVALID');
      expect((await failureOf(deps.remove(text))).code).toBe('DEPS_INVALID');
      expect(await deps.list()).toEqual([]);
    },
  );
}
