import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WorkspaceFiles } from './workspace-files.ts';

let top: string;
let root: string;
let workspace: WorkspaceFiles;

beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'cella-files-'));
  root = join(top, 'work');
  mkdirSync(root);
  mkdirSync(join(top, 'work-evil'));
  writeFileSync(join(top, 'secret'), 'secret');
  workspace = new WorkspaceFiles({ path: root });
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

async function* bytes(...texts: string[]): AsyncIterable<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

async function textOf(path: string, start?: number): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of (await workspace.read(path, start)).chunks) parts.push(part);
  return Buffer.concat(parts).toString();
}

function linkOf(fd: string): string | undefined {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return undefined; // the descriptor of the listing itself
  }
}

describe('a workspace', () => {
  it('stores any bytes, and creates missing folders', async () => {
    expect(await workspace.write('a/b/c.bin', bytes('one ', 'two'))).toMatchObject({ name: 'c.bin', size: 7 });
    expect(await textOf('a/b/c.bin')).toBe('one two');
    expect(await textOf('a/b/c.bin', 4)).toBe('two');
    await workspace.write('empty', bytes());
    expect(await textOf('empty')).toBe('');
    expect((await workspace.list('')).files).toMatchObject([
      { name: 'a', kind: 'folder' },
      { name: 'empty', kind: 'file', size: 0 },
    ]);
  });

  it('keeps no file open for a reader who stops before the first byte', async () => {
    await workspace.write('file', bytes('x'));
    const { chunks } = await workspace.read('file');
    const held = () => readdirSync('/proc/self/fd').filter((fd) => linkOf(fd) === join(root, 'file'));
    expect(held()).toHaveLength(1);
    await chunks[Symbol.asyncIterator]().return?.();
    expect(held()).toEqual([]);
  });

  it('creates files and folders that other users of it can read, whatever the umask', async () => {
    const before = process.umask(0o077);
    try {
      await workspace.write('a/file', bytes('x'));
    } finally {
      process.umask(before);
    }
    const modes = ['a', 'a/file'].map((name) => (statSync(join(root, name)).mode & 0o777).toString(8));
    expect(modes).toEqual(['755', '644']);
  });

  it('keeps the old content if a write fails half way', async () => {
    await workspace.write('kept', bytes('old'));
    async function* broken() {
      yield Buffer.from('new');
      throw new Error('the client went away');
    }
    await expect(workspace.write('kept', broken())).rejects.toThrow('went away');
    await expect(workspace.write('kept', bytes('too long'), { limitBytes: 3 })).rejects.toMatchObject({
      code: 'TOO_LARGE',
    });
    expect(readdirSync(root)).toEqual(['kept']);
    expect(await textOf('kept')).toBe('old');
  });

  it('moves and deletes', async () => {
    await workspace.write('a', bytes('1'));
    await workspace.write('b', bytes('2'));
    await expect(workspace.move('a', 'b')).rejects.toMatchObject({ code: 'NAME_TAKEN' });
    await workspace.move('a', 'c/d');
    await workspace.move('c/d', 'b', { replace: true });
    expect(await textOf('b')).toBe('1');
    await expect(workspace.move('c', 'c/e/f')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await workspace.write('c/x/y', bytes(''));
    await expect(workspace.delete('c')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await workspace.delete('c', { recursive: true });
    expect(readdirSync(root)).toEqual(['b']);
    await expect(workspace.delete('c')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('deletes folders of any depth with few open ones', async () => {
    const trees = ['one', 'two', 'three'];
    for (const tree of trees) {
      const path = (levels: number) => join(root, tree, 'd/'.repeat(levels));
      mkdirSync(path(260), { recursive: true });
      mkdirSync(join(path(2), 'beside', 'inner'), { recursive: true });
      for (const levels of [0, 1, 2, 3, 260]) writeFileSync(join(path(levels), 'file'), '');
    }
    const held = () => readdirSync('/proc/self/fd').length;
    const before = held();
    let [most, over] = [0, false];
    const watch = async () => {
      for (; !over; await new Promise(setImmediate)) most = Math.max(most, held() - before);
    };
    const deleted = Promise.all(trees.map((tree) => workspace.delete(tree, { recursive: true })));
    const watched = watch();
    await deleted.finally(() => {
      over = true;
    });
    await watched;
    expect(readdirSync(root)).toEqual([]);
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThan(trees.length * 8);
  });

  it.each(['..', '../secret', 'a/../../secret', '/etc/passwd', 'a\0b', 'a\ud800', '../work-evil/x', 'x'.repeat(300)])(
    'refuses the path %j',
    async (path) => {
      await expect(workspace.write(path, bytes('x'))).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
      await expect(workspace.read(path)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
      await expect(workspace.list(path)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
      await expect(workspace.move(path, 'here')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
      await expect(workspace.delete(path)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
      expect(readdirSync(join(top, 'work-evil'))).toEqual([]);
    },
  );

  it('follows no link when it deletes', async () => {
    symlinkSync(join(top, 'secret'), join(root, 'link'));
    symlinkSync(top, join(root, 'out'));
    symlinkSync(join(top, 'work-evil'), join(root, 'evil'));
    await expect(workspace.read('link')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await expect(workspace.read('out/secret')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await expect(workspace.write('evil/x', bytes('x'))).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await expect(workspace.list('out')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await expect(workspace.delete('out/secret')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    // A write replaces the link, as it would a file.
    await workspace.write('link', bytes('mine'));
    expect(readFileSync(join(top, 'secret'), 'utf8')).toBe('secret');
    await workspace.delete('out');
    mkdirSync(join(root, 'tree'));
    symlinkSync(top, join(root, 'tree', 'out'));
    await workspace.delete('tree', { recursive: true });
    expect(existsSync(join(top, 'secret'))).toBe(true);
  });

  it('follows links that stay inside, by any path that the code has for its folder', async () => {
    const named = new WorkspaceFiles({ path: root, inside: '/agent/workspace' });
    await workspace.write('a/b/file', bytes('inside'));
    symlinkSync('b/../b/file', join(root, 'a', 'relative'));
    symlinkSync('/agent/workspace/a', join(root, 'absolute'));
    symlinkSync('/agent/workspace-evil', join(root, 'beside'));
    symlinkSync('../../..', join(root, 'a', 'b', 'up'));
    const read = async (path: string) => {
      for await (const chunk of (await named.read(path)).chunks) return chunk;
      throw new Error('There was no chunk.');
    };
    for (const path of ['a/relative', 'absolute/b/file', 'absolute/relative']) {
      expect(Buffer.from(await read(path)).toString()).toBe('inside');
    }
    expect((await named.list('absolute')).files.map(({ name }) => name)).toEqual(['b', 'relative']);
    await named.write('absolute/new', bytes('x'));
    expect(readFileSync(join(root, 'a', 'new'), 'utf8')).toBe('x');
    await named.delete('absolute');
    expect(existsSync(join(root, 'a', 'new'))).toBe(true);
    for (const path of ['beside/x', 'a/b/up/secret']) await expect(named.read(path)).rejects.toThrow();
    await expect(named.list('a/b/up')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  });

  it('is refused if a link has taken its place', async () => {
    rmSync(root, { recursive: true });
    symlinkSync('/etc', root);
    await expect(workspace.read('passwd')).rejects.toMatchObject({ code: 'FOLDER_REPLACED' });
    await expect(workspace.list('')).rejects.toMatchObject({ code: 'FOLDER_REPLACED' });
    await expect(workspace.write('cella-test', bytes('x'))).rejects.toMatchObject({ code: 'FOLDER_REPLACED' });
  });

  it('does not block on a pipe', async () => {
    execFileSync('mkfifo', [join(root, 'pipe')]);
    await expect(workspace.read('pipe')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await expect(workspace.write('pipe', bytes('x'))).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  });
});
