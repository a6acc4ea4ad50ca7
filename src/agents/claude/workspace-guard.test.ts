import { mkdir, mkdtemp, realpath, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { staysInside } from './workspace-guard.ts';

let folder: string;
let workspace: string;
beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'cella-guard-')));
  workspace = join(folder, 'workspace');
  for (const name of ['workspace/sub', 'workspace-evil', 'own', 'outside']) {
    await mkdir(join(folder, name), { recursive: true });
  }
  for (const name of ['workspace/file', 'own/result', 'outside/secret']) await writeFile(join(folder, name), 'x');
  await symlink('../outside', join(workspace, 'link'));
  await symlink('/etc/passwd', join(workspace, 'file-link'));
  await symlink('sub', join(workspace, 'inner-link'));
});

const stays = (tool: string, input: Record<string, unknown>, cwd = workspace) =>
  staysInside({ tool, input, cwd }, { workspace, readable: [join(folder, 'own')] });

describe('a path', () => {
  test.each(['file', 'sub/new', './file', 'inner-link/new', 'sub/../file', '..file'])('%j is inside', async (path) => {
    for (const at of [path, join(workspace, path)]) {
      expect(await stays('Read', { file_path: at })).toBe(true);
      expect(await stays('Write', { file_path: at })).toBe(true);
      expect(await stays('NotebookEdit', { notebook_path: at })).toBe(true);
    }
  });

  test.each(['..', '../outside/secret', '../workspace-evil/x', 'link/secret', 'link', 'file-link', '/etc/passwd', '/'])(
    '%j is outside',
    async (path) => {
      for (const tool of ['Read', 'Write', 'Edit', 'MultiEdit'])
        expect(await stays(tool, { file_path: path })).toBe(false);
      for (const tool of ['Glob', 'Grep']) expect(await stays(tool, { path, pattern: 'x' })).toBe(false);
    },
  );

  test.each(['~/x', '~', ' /etc/passwd', '/etc/passwd\n', 'a\0b', '', 7, null, ['file'], { path: 'file' }])(
    '%j is unclear, and so outside',
    async (path) => {
      if (path !== '' && path !== null) expect(await stays('Read', { file_path: path })).toBe(false);
      if (path !== null) expect(await stays('Glob', { pattern: path === '' ? 7 : path })).toBe(false);
    },
  );

  test('that a tool leaves out is the current folder of the program', async () => {
    expect(await stays('Grep', { pattern: 'x' })).toBe(true);
    expect(await stays('Grep', { pattern: 'x' }, join(workspace, 'sub'))).toBe(true);
    for (const cwd of ['/', folder, join(workspace, 'link')]) {
      expect(await stays('Grep', { pattern: 'x' }, cwd)).toBe(false);
      expect(await stays('Glob', { pattern: '*' }, cwd)).toBe(false);
      expect(await stays('Read', { file_path: 'file' }, cwd)).toBe(false);
    }
  });

  test('of the program’s own files is read, and not written', async () => {
    const file_path = join(folder, 'own', 'result');
    expect(await stays('Read', { file_path })).toBe(true);
    expect(await stays('Write', { file_path })).toBe(false);
  });
});

test.each(['../*', '/etc/*', 'sub/../../*'])('a pattern that leads away is outside: %j', async (pattern) => {
  expect(await stays('Glob', { pattern })).toBe(false);
});

test('a tool that names no file stays inside', async () => {
  expect(await stays('TodoWrite', { path: '/etc' })).toBe(true);
});
