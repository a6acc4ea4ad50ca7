import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { findPython, holdsPackagesOnly, probePython } from './find-python.ts';
import { kernelPackage } from './package-file.ts';

const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cella-python-'));
});

afterEach(() => rm(folder, { recursive: true }));

async function program(name: string, text: string, mode = 0o755): Promise<string> {
  const path = join(folder, name);
  await mkdir(join(path, '..'), { recursive: true });
  await writeFile(path, text);
  await chmod(path, mode);
  return path;
}

test('the kernel package is where its entry point is', async () => {
  expect(await readFile(join(kernelPackage(), '__main__.py'), 'utf8')).toContain('detect');
});

describe('finding a Python', () => {
  test('a real program is preferred to a shim that comes first on PATH', async () => {
    await program('shims/python3', '#!/bin/sh\nexec python3\n');
    const real = await program('real/python3', '\x7fELF');
    expect(await findPython(undefined, [join(folder, 'shims'), join(folder, 'real')].join(delimiter))).toBe(real);
  });

  test('if all are shims, the first is used', async () => {
    const first = await program('a/python3', '#!/bin/sh\n');
    await program('b/python3', '#!/bin/sh\n');
    expect(await findPython(undefined, [join(folder, 'a'), join(folder, 'b')].join(delimiter))).toBe(first);
  });

  test('a bare name is looked up on PATH, skipping files that cannot be run', async () => {
    await program('a/py', '\x7fELF', 0o644);
    await mkdir(join(folder, 'b/py'), { recursive: true });
    const real = await program('c/py', '\x7fELF');
    const path = ['a', 'b', 'c'].map((name) => join(folder, name)).join(delimiter);
    expect(await findPython('py', path)).toBe(real);
  });

  test('a relative entry of PATH is not searched', async () => {
    await expect(findPython('python3', ['.', 'bin', ''].join(delimiter))).rejects.toMatchObject({
      code: 'PYTHON_NOT_FOUND',
    });
  });

  test('a path is used unchanged, and errors name what was searched for', async () => {
    const link = join(folder, 'link');
    await symlink(python, link);
    expect(await findPython(link)).toBe(link);
    const missing = join(folder, 'none');
    await expect(findPython(missing)).rejects.toMatchObject({
      code: 'PYTHON_NOT_FOUND',
      message: expect.stringContaining(missing),
    });
    await expect(findPython('no-such-python', folder)).rejects.toThrow(`no no-such-python on PATH (${folder})`);
  });
});

describe('asking an interpreter about itself', () => {
  test('reports its version and the folders that it loads from', async () => {
    const facts = await probePython(python);
    expect(facts.version[0]).toBe(3);
    expect(facts.executable).toMatch(/^\//);
    expect(facts.packageFolders.length).toBeGreaterThan(0);
    expect(new Set(facts.packageFolders).size).toBe(facts.packageFolders.length);
    expect(facts.packageFolders).not.toContain('/');
  });

  test.each(['/', '/root', '/home', '/etc', '/var', '/tmp', homedir(), dirname(homedir())])(
    'a folder as wide as %s is no package folder, though a path file may name it',
    (wide) => {
      expect(holdsPackagesOnly(wide)).toBe(false);
      expect(holdsPackagesOnly(`${homedir()}/.pyenv/versions/3.13.0`)).toBe(true);
      expect(holdsPackagesOnly('/usr/lib/python3/dist-packages')).toBe(true);
    },
  );

  test('runs it once, however often it is asked', async () => {
    const counter = join(folder, 'count');
    const path = await program('counting', `#!/bin/sh\necho x >> ${counter}\nexec ${python} "$@"\n`);
    await Promise.all([probePython(path), probePython(path)]);
    await probePython(path);
    expect(await readFile(counter, 'utf8')).toBe('x\n');
  });

  test('does not cache a failure', async () => {
    const path = await program('mended', '#!/bin/sh\necho broken >&2\nexit 3\n');
    await expect(probePython(path)).rejects.toThrow('broken');
    await program('mended', `#!/bin/sh\nexec ${python} "$@"\n`);
    expect((await probePython(path)).version[0]).toBe(3);
  });

  test.each([
    ['too old', `#!/bin/sh\necho '{"version":[3,8,20],"executable":"/x","packageFolders":[]}'\n`, '3.9 or later'],
    ['no Python at all', '#!/bin/sh\necho hello\n', 'gave an invalid answer'],
  ])('%s is refused', async (_name, text, words) => {
    const path = await program('other', text);
    await expect(probePython(path)).rejects.toMatchObject({
      code: 'PYTHON_NOT_FOUND',
      message: expect.stringContaining(words),
    });
  });
});
