import { mkdtemp, readdir, readFile, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { makeWheel, type WheelOptions } from '../../../../test/support/packages/wheels.ts';
import { removeFolder } from '../../../environments/files/remove-tree.ts';
import { PackageSource } from '../package-source.ts';
import { type BuiltInInstall, installBuiltIn } from './install-wheels.ts';

const pyodide = { tag: 'cp314-wasm32', version: [3, 14], platforms: [] } as const;
const alpine = { tag: 'cp312-x86_64', version: [3, 12], patch: 4, platforms: ['musllinux_1_2_x86_64'] } as const;

type Wheel = readonly [name: string, options?: WheelOptions];

async function install(wheels: readonly Wheel[], requirements: string[], options: Partial<BuiltInInstall> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'cella-own-'));
  onTestFinished(() => removeFolder(folder));
  const wheelFolder = join(folder, 'wheels');
  for (const [name, more] of wheels) await makeWheel(wheelFolder, name, more);
  const source = PackageSource.parse({ wheelFolders: [wheelFolder], noIndex: true });
  const own = join(folder, 'own');
  const failure = await installBuiltIn(
    { requirements, interpreter: pyodide, source, timeoutMs: 60_000, folder: own, ...options },
    { signal: new AbortController().signal, progress: () => {} },
  );
  const target = join(own, 'target');
  const names = (await readdir(target)).flatMap((name) => /^(.+)\.dist-info$/.exec(name)?.[1] ?? []).toSorted();
  return { reason: failure?.reason, names, target };
}

describe('versions are chosen so that', () => {
  it('each is the newest that meets all conditions', async () => {
    const wheels: Wheel[] = [
      ['top', { requires: ['low>=1', 'side'] }],
      ['side', { requires: ['low<3,!=2.5'] }],
      ...['1.0', '2.0', '2.5', '2.10', '2.9', '3.0', '4.0rc1'].map((version): Wheel => ['low', { version }]),
    ];
    expect((await install(wheels, ['top'])).names).toEqual(['low-2.10', 'side-1.0.0', 'top-1.0.0']);
  });

  it('an older one is used if the newest conflicts with others', async () => {
    const wheels: Wheel[] = [
      ['app', { version: '2.0', requires: ['low>=2'] }],
      ['app', { version: '1.0', requires: ['low'] }],
      ['other', { requires: ['low<2'] }],
      ['low', { version: '1.0' }],
      ['low', { version: '2.0' }],
    ];
    expect((await install(wheels, ['app', 'other'])).names).toEqual(['app-1.0', 'low-1.0', 'other-1.0.0']);
  });

  it('conflicts are reported with the packages that require what', async () => {
    const wheels: Wheel[] = [
      ['a', { requires: ['low>=2'] }],
      ['b', { requires: ['low<2'] }],
      ['low'],
      ['low', { version: '2.0' }],
    ];
    const { reason } = await install(wheels, ['a', 'b']);
    expect(reason).toBe('no version of low meets all requirements: a 1.0.0 needs low>=2, b 1.0.0 needs low<2');
  });

  it('the search has a limit, which is reported', async () => {
    const many = Array.from({ length: 30 }, (_, at) => `1.${at}`);
    const wheels: Wheel[] = [
      ...many.map((version): Wheel => ['a', { version, requires: ['b'] }]),
      ...many.map((version): Wheel => ['b', { version, requires: ['c>=2'] }]),
      ['c'],
    ];
    const { reason } = await install(wheels, ['a'], { limits: { versions: 100 } });
    expect(reason).toContain('no solution was found among 100 versions');
    expect(reason).toContain('no version of c is >=2');
  });

  it('prereleases are used on request, or if there is nothing else', async () => {
    const wheels: Wheel[] = [
      ['a', { version: '1.0' }],
      ['a', { version: '2.0b1' }],
      ['b', { version: '1.0a1' }],
    ];
    expect((await install(wheels, ['a', 'b'])).names).toEqual(['a-1.0', 'b-1.0a1']);
    expect((await install(wheels, ['a>=2.0b1'])).names).toEqual(['a-2.0b1']);
  });

  it('extras add their requirements, also if they are requested later or by themselves', async () => {
    const wheels: Wheel[] = [
      ['a', { requires: ['b; extra == "fast"', 'a[fast]; extra == "all"', 'c; extra == "no"'] }],
      ['later', { requires: ['a[all]'] }],
      ['b'],
      ['c'],
    ];
    expect((await install(wheels, ['a'])).names).toEqual(['a-1.0.0']);
    expect((await install(wheels, ['a', 'later'])).names).toEqual(['a-1.0.0', 'b-1.0.0', 'later-1.0.0']);
  });

  it('markers are evaluated for the target Python', async () => {
    const wheels: Wheel[] = [
      [
        'a',
        {
          requires: [
            'old; python_version < "3.13"',
            'web; sys_platform == "emscripten"',
            'lin; sys_platform == "linux"',
          ],
        },
      ],
      ...['old', 'web', 'lin'].map((name): Wheel => [name]),
    ];
    expect((await install(wheels, ['a'])).names).toEqual(['a-1.0.0', 'web-1.0.0']);
    expect((await install(wheels, ['a'], { interpreter: alpine })).names).toEqual([
      'a-1.0.0',
      'lin-1.0.0',
      'old-1.0.0',
    ]);
  });

  it('a version for another Python is skipped', async () => {
    const wheels: Wheel[] = [
      ['a', { version: '2.0', requiresPython: '>=3.13' }],
      ['a', { version: '1.0' }],
    ];
    expect((await install(wheels, ['a'], { interpreter: alpine })).names).toEqual(['a-1.0']);
    const { reason } = await install(wheels, ['a>=2'], { interpreter: alpine });
    expect(reason).toBe('a 2.0 needs Python >=3.13; this is 3.12.4');
  });

  it('two packages that require each other are both installed', async () => {
    expect(
      (
        await install(
          [
            ['a', { requires: ['b'] }],
            ['b', { requires: ['a'] }],
          ],
          ['a'],
        )
      ).names,
    ).toEqual(['a-1.0.0', 'b-1.0.0']);
  });
});

describe('a wheel', () => {
  const native = 'cp312-cp312-musllinux_1_2_x86_64';

  it('with native code is preferred by a suitable Python', async () => {
    const wheels: Wheel[] = [
      ['a', { tag: native, files: { 'a.so': 'x' } }],
      ['a', { files: { 'pure.py': '' } }],
    ];
    expect(await readdir((await install(wheels, ['a'], { interpreter: alpine })).target)).toContain('a.so');
    expect(await readdir((await install(wheels, ['a'])).target)).toContain('pure.py');
  });

  it.each([
    [
      'by its name',
      { tag: 'cp314-cp314-manylinux_2_28_x86_64' },
      'a 1.0.0 has native code (cp314-cp314-manylinux_2_28_x86_64)',
    ],
    ['in spite of its name', { files: { 'a/core.cpython-314.so': 'x' } }, 'it has native code (a/core.cpython-314.so)'],
  ])('with native code %s is refused in WebAssembly, with the way out', async (_how, options, why) => {
    const { reason } = await install([['a', options]], ['a']);
    expect(reason).toContain(why);
    expect(reason).toContain('in-process runs pure Python only: use subprocess or container');
  });

  it.each<[string, WheelOptions, string]>([
    ['says another name', { metadata: 'Name: b\nVersion: 1.0.0\n' }, 'has no name or version'],
    ['says another version', { metadata: 'Name: a\nVersion: 2.0\n' }, 'another package, or another version'],
    ['says nothing', { metadata: '' }, 'has no name or version'],
    ['needs something by URL', { requires: ['b @ http://127.0.0.1:1/b.whl'] }, 'URLs are not accepted'],
    ['needs what nobody understands', { requires: ['b ; what == "ever"'] }, 'is not a valid requirement'],
    ['needs an option', { requires: ['--index-url http://x'] }, 'is not a valid requirement'],
    ['needs too much', { requires: Array.from({ length: 6000 }, (_, at) => `b${at}`) }, 'has no name or version'],
    ['leads out of its folder', { extra: [{ path: '../../evil.py', content: '' }] }, 'leads out of its folder'],
    [
      'leads out of its data folder',
      { extra: [{ path: 'a-1.0.0.data/purelib/../../evil.py', content: '' }] },
      'leads out',
    ],
    ['holds a link', { extra: [{ path: 'evil', content: '/etc/passwd', mode: 0o120777 }] }, 'neither file nor folder'],
    ['is damaged', { damaged: 'a.py' }, 'a.py in it is damaged'],
    ['puts two files in one place', { extra: [{ path: 'a-1.0.0.data/purelib/a.py', content: '' }] }, 'the same path'],
  ])('that %s is refused', async (_what, options, why) => {
    const { reason } = await install([['a', options]], ['a']);
    expect(reason).toContain(why);
  });

  it('is unpacked to the right places', async () => {
    const data = 'a-1.0.0.data';
    const files = {
      [`${data}/purelib/pure.py`]: '1',
      [`${data}/platlib/plat.py`]: '2',
      [`${data}/data/share/a.txt`]: '3',
      [`${data}/headers/a.h`]: '4',
      [`${data}/scripts/run-a`]: '#!python\nprint(1)\n',
    };
    const { target } = await install([['a', { files }]], ['a']);
    const names = await readdir(target, { recursive: true });
    expect(names).toEqual(expect.arrayContaining(['pure.py', 'plat.py', 'share/a.txt', 'bin/run-a']));
    expect(names.filter((name) => name.includes('.data') || name.includes('a.h'))).toEqual([]);
    expect(await readFile(join(target, 'bin/run-a'), 'utf8')).toBe('#!/usr/bin/env python3\nprint(1)\n');
    expect((await stat(join(target, 'bin/run-a'))).mode & 0o111).toBe(0o111);
  });

  it('with a file in place of another’s folder is refused', async () => {
    const { reason } = await install(
      [
        ['a', { requires: ['b'], files: { same: '' } }],
        ['b', { files: { 'same/b.py': '' } }],
      ],
      ['a'],
    );
    expect(reason).toContain('cannot be unpacked');
  });

  it('installs its scripts, and no others', async () => {
    const entries = [
      '[console_scripts]',
      'say-it = a.cli:main',
      'other = a:App.run [extra]',
      '../up = a:main',
      'bad = a; import os:main',
      '[gui_scripts]',
      'window = a:main',
    ];
    const files = { 'a.py': '', 'a-1.0.0.dist-info/entry_points.txt': entries.join('\n') };
    const { target } = await install([['a', { files }]], ['a']);
    expect((await readdir(join(target, 'bin'))).toSorted()).toEqual(['other', 'say-it']);
    expect(await readFile(join(target, 'bin/other'), 'utf8')).toBe(
      '#!/usr/bin/env python3\nimport sys\nfrom a import App\nsys.exit(App.run())\n',
    );
  });

  it.each([
    ['unpacked', { unpackedBytes: 1500 }, 'larger than'],
    ['packages', { packages: 1 }, 'more than 1 packages'],
    ['files', { files: 3 }, 'more than 3 files'],
    ['needs', { maxRequirements: 1 }, 'more than 1 requirements'],
  ])('has limits: %s', async (_what, limits, why) => {
    const { reason } = await install(
      [
        ['a', { requires: ['b'] }],
        ['b', { files: { 'b.py': 'x'.repeat(1200) } }],
      ],
      ['a'],
      { limits },
    );
    expect(reason).toContain(why);
  });
});

describe('the real reason is reported:', () => {
  it.each([
    ['no such package', [], 'nothing', 'there is no package nothing'],
    ['no such version', [['a'], ['a', { version: '2.0' }]], 'a>=9', 'no version of a is >=9: there are 2.0, 1.0.0'],
    [
      'another libc',
      [['a', { tag: 'cp312-cp312-manylinux_2_17_x86_64' }]],
      'a',
      'a 1.0.0 has no wheel for Python 3.12.4 on musllinux_1_2_x86_64; it has cp312-cp312-manylinux_2_17_x86_64',
    ],
  ] as [string, Wheel[], string, string][])('%s', async (_what, wheels, wanted, why) => {
    const { reason } = await install([['other'], ...wheels], [wanted], { interpreter: alpine });
    expect(reason).toContain(why);
  });

  it('a requirement of the package itself', async () => {
    const { reason } = await install([['a', { requires: ['b>=2'] }], ['b']], ['a']);
    expect(reason).toBe('a 1.0.0 needs b>=2: no version of b is >=2: there are 1.0.0');
  });
});
