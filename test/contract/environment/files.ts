/** The files of an environment: any bytes under any name, and nothing outside of its folders. */

import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Environment } from '../../../src/environments/environment.ts';
import { python } from '../../support/kernels/environments.ts';

const ODD = [
  'a "quoted" name',
  "it's",
  'two\nlines',
  '$(touch pwned)',
  '`x`; rm -rf .',
  '-rf',
  'ünïcødé \u{1f40d}',
  '*?[{',
  ' ',
];

export function environmentFilesContract(environment: () => Environment): void {
  describe('files', () => {
    it('keep bytes unchanged, also zero bytes: an empty file was read as missing', async () => {
      const bytes = Uint8Array.from({ length: 300_000 }, (_, index) => (index * 7) % 256);
      await environment().writeFile('bin/data', bytes);
      expect(Buffer.from(await environment().readBytes('bin/data')).equals(bytes)).toBe(true);
      await environment().writeFile('bin/empty', '');
      expect(await environment().readFile('bin/empty')).toBe('');
      await expect(environment().readFile('bin/none')).rejects.toMatchObject({ code: 'NOT_FOUND' });
      await expect(environment().readFile('bin/data')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
      await environment().writeFile('bin/text', '\uFEFFgrüße\r\n');
      expect(await environment().readFile('bin/text')).toBe('\uFEFFgrüße\r\n');
      await environment().writeFile('bin/text', 'shorter');
      expect(await environment().readFile('bin/text')).toBe('shorter');
    });

    it('are the same for the host and for programs inside, by relative and by absolute paths', async () => {
      const { WORKSPACE_DIR, HOME_DIR } = environment().getBasePaths();
      await environment().writeFile('deep/er/and/deeper.txt', 'from outside');
      await environment().writeFile(join(HOME_DIR, '.config/x'), 'at home');
      const script =
        'import sys\nprint([open(path).read() for path in sys.argv[1:]])\nopen("made", "w").write("inside")';
      const args = ['deep/er/and/deeper.txt', `${WORKSPACE_DIR}/deep/er/and/deeper.txt`, `${HOME_DIR}/.config/x`];
      const { stdout, stderr } = await python(environment(), script, { args });
      expect(stderr).toBe('');
      expect(stdout).toBe("['from outside', 'from outside', 'at home']\n");
      expect(await environment().readFile(`${WORKSPACE_DIR}/made`)).toBe('inside');
      // What the host has written is the program's own.
      const change = 'import os\nopen("deep/er/and/deeper.txt", "a").write("!")\nos.remove("deep/er/and/deeper.txt")';
      expect(await python(environment(), change)).toMatchObject({ exit: { code: 0 }, stderr: '' });
    });

    it('can have any name', async () => {
      const files = ODD.map((name) => ({ path: `odd/${name}/${name}`, content: name }));
      expect(await environment().writeFiles(files)).toEqual(files.map(({ path }) => ({ path, ok: true })));
      for (const { path, content } of files) expect(await environment().readFile(path)).toBe(content);
      const listed = await environment().listFiles('odd', '*/*');
      expect(listed.map(({ path }) => path)).toEqual(ODD.map((name) => `${name}/${name}`).sort());
      const { stdout } = await python(environment(), 'import json, os\nprint(json.dumps(sorted(os.listdir("odd"))))');
      expect(new Set(JSON.parse(stdout))).toEqual(new Set(ODD));
    });

    it('can be written and listed 10,000 at once', async () => {
      const files = Array.from({ length: 10_000 }, (_, index) => ({
        path: `many/${index % 10}/file ${index}.txt`,
        content: index % 3 === 0 ? '' : String(index),
      }));
      const results = await environment().writeFiles(files);
      expect(results.filter(({ ok }) => !ok)).toEqual([]);
      const listed = await environment().listFiles('many', '**/*.txt');
      expect(listed).toHaveLength(10_000);
      expect(listed.filter(({ bytes }) => bytes === 0)).toHaveLength(3334);
      expect(new Set(listed.map(({ path }) => `many/${path}`))).toEqual(new Set(files.map(({ path }) => path)));
      expect(await environment().listFiles('many')).toHaveLength(10_010);
      expect(await environment().readFile('many/8/file 9998.txt')).toBe('9998');
    });

    it('are listed by pattern, links as links', async () => {
      await environment().writeFiles(
        ['src/a.ts', 'src/b/c.ts', 'src/b/d.md', 'src/.hidden'].map((path) => ({ path, content: 'x' })),
      );
      await python(environment(), 'import os\nos.symlink("/etc", "src/etc")\nos.symlink("a.ts", "src/alias")');
      const paths = async (pattern?: string) =>
        (await environment().listFiles('src', pattern)).map(({ path, type }) => `${type} ${path}`);
      expect(await paths('**/*.ts')).toEqual(['file a.ts', 'file b/c.ts']);
      expect(await paths('{a,b/*}.{ts,md}')).toEqual(['file a.ts', 'file b/c.ts', 'file b/d.md']);
      expect(await paths()).toEqual([
        'file .hidden',
        'file a.ts',
        'link alias',
        'folder b',
        'file b/c.ts',
        'file b/d.md',
        'link etc',
      ]);
      expect(await environment().listFiles('src', 'etc/*')).toEqual([]);
      await expect(environment().listFiles('none')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    });

    it('report the result for each of many', async () => {
      await environment().writeFile('folder/file', 'x');
      const paths = ['good', '../bad', 'folder', 'folder/file/below', '/etc/cella-test', 'also good'];
      const results = await environment().writeFiles(paths.map((path) => ({ path, content: path })));
      expect(results.map(({ path, ok }) => [path, ok])).toEqual(paths.map((path) => [path, path.endsWith('good')]));
      expect(results.find(({ ok }) => !ok)).toMatchObject({ error: { code: 'INVALID_REQUEST' } });
      const twice = [
        { path: 'twice', content: '1' },
        { path: './twice', content: '2' },
      ];
      await environment().writeFiles(twice);
      expect(await environment().readFile('twice')).toBe('2');
    });

    it('outside of its folders cannot be reached by any path: /workspace-evil passed the /workspace check', async () => {
      const { WORKSPACE_DIR, HOME_DIR } = environment().getBasePaths();
      const outside = [
        '../x',
        'a/../../x',
        '/etc/passwd',
        '/',
        '',
        WORKSPACE_DIR,
        `${WORKSPACE_DIR}-evil/x`,
        `${HOME_DIR}evil`,
        `${WORKSPACE_DIR}/../home/x`,
        `${WORKSPACE_DIR}/../../etc/passwd`,
        'nul\0byte',
        `${WORKSPACE_DIR}/..`,
      ];
      for (const path of outside) {
        await expect(environment().readFile(path), path).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
        await expect(environment().writeFile(path, 'x'), path).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
      }
      for (const path of ['..', '/etc', `${WORKSPACE_DIR}-evil`]) {
        await expect(environment().listFiles(path), path).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
        await expect(environment().watch(path), path).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
      }
    });

    it('outside of its folders cannot be reached by links: symlinks passed the /workspace check', async () => {
      const links =
        'import os\nos.symlink("/etc", "link")\nos.symlink("/etc/passwd", "secret")\nos.symlink("/tmp/new", "new")';
      await python(environment(), links);
      for (const path of ['link/passwd', 'secret', 'link/../secret']) {
        await expect(environment().readFile(path), path).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
      }
      await expect(environment().writeFile('link/cella-test', 'x')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
      await expect(environment().listFiles('link')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
      const [written] = await environment().writeFiles([{ path: 'link/cella-test', content: 'x' }]);
      expect(written).toMatchObject({ ok: false, error: { code: 'INVALID_REQUEST' } });
      // A write takes the place of a link, and what that led to stays.
      await environment().writeFile('secret', 'mine');
      expect(await environment().readFile('secret')).toBe('mine');
      expect((await python(environment(), 'print(open("link/passwd").read().count("mine"))')).stdout).toBe('0\n');
    });

    it('that never end are refused', async () => {
      await python(environment(), 'import os\nos.mkfifo("pipe")');
      await expect(environment().readFile('pipe')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
      await expect(environment().readFile('pipe/x')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    });

    it('are watched as soon as `watch` resolves', async () => {
      const stop = new AbortController();
      await environment().writeFile('watched/old', 'x');
      const changes = await environment().watch('watched', { signal: stop.signal });
      await python(environment(), 'open("watched/new", "w").close()');
      await environment().writeFile('watched/sub/file', 'x');
      const seen = new Set<string>();
      for await (const { path, change } of changes) {
        seen.add(`${change} ${path}`);
        if (!seen.has('created sub/file') || !seen.has('created new')) continue;
        if (seen.has('deleted old')) break;
        await python(environment(), 'import os\nos.remove("watched/old")');
      }
      expect([...seen]).toEqual(expect.arrayContaining(['created new', 'created sub/file', 'deleted old']));
      const others = await environment().watch('watched', { signal: stop.signal });
      stop.abort();
      for await (const change of others) throw new Error(`told of ${change.path} after its end`);
    });
  });
}
