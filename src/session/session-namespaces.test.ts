import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { openNamespaces } from './session-namespaces.ts';
import { closeStorages } from './shared-resources.ts';

const folders: string[] = [];

afterEach(async () => {
  await closeStorages();
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'cella-namespaces-'));
  folders.push(folder);
  return folder;
}

it('a namespace that could not be opened is opened by the next call that can', async () => {
  const dataDir = await newFolder();
  const inTheWay = join(dataDir, 'checkpoints');
  await writeFile(inTheWay, 'a file where a folder belongs');
  await using namespaces = await openNamespaces({ dataDir });
  const calls = [
    () => namespaces.tools.list(),
    () => namespaces.skills.list(),
    () => namespaces.artifacts.list(),
    () => namespaces.deps.list(),
  ];
  for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  await rm(inTheWay);
  for (const call of calls) expect(await call()).toEqual([]);
});

it('the configuration can be read and changed without any Python; only an install needs one', async () => {
  await using namespaces = await openNamespaces({ dataDir: await newFolder(), python: '/nonexistent/python' });
  expect([await namespaces.deps.list(), await namespaces.tools.list()]).toEqual([[], []]);
  await expect(namespaces.deps.add('tiny')).rejects.toMatchObject({ code: 'PYTHON_NOT_FOUND' });
});

it('contradicting options are reported before anything opens', async () => {
  await expect(openNamespaces({ dataDir: await newFolder(), image: 'mine' })).rejects.toMatchObject({
    code: 'INVALID_OPTIONS',
    message: expect.stringContaining('image'),
  });
});

it('a program that needs a sandbox gets an error if there is none', async () => {
  await using namespaces = await openNamespaces({ dataDir: await newFolder() });
  await namespaces.tools.create('name: say\ncommand: echo\n');
  await expect(namespaces.tools.call('say', {})).rejects.toMatchObject({
    code: 'TOOL_FAILED',
    message: expect.stringContaining('Open a session'),
  });
});
