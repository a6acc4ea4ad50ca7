/** The first prompts of a newcomer, at the command line and in a program, as they are built: a server, a key, the real Claude in its sandbox. */

import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { Model } from '../support/agents/model.ts';
import { sharedProgram } from '../support/agents/shared-agents.ts';
import { Cella } from '../support/cli/command.ts';

const KEY = 'sk-ant-of-a-newcomer-0123456789';
const cella = new Cella();
let model: Model;
beforeAll(async () => {
  model = await Model.start();
  symlinkSync(dirname(dirname(await sharedProgram('claude'))), join(cella.dataDir, 'programs'));
}, 180_000);
afterAll(async () => {
  await cella.run(['serve', 'stop']);
  cella[Symbol.dispose]();
  await model[Symbol.asyncDispose]();
});

const serve = (env: NodeJS.ProcessEnv = {}) =>
  cella.run(['serve', '--detach', '--port', '0', '--provider', `anthropic=${model.url}`], { env });
const setKey = () => cella.run(['credentials', 'set', 'anthropic'], { input: `${KEY}\n` });
const masterKey = () => readFileSync(join(cella.dataDir, 'master-key'), 'utf8').trim();
const linesOf = (out: string) =>
  out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

it('is refused without a key, answered with one, and in the log', async () => {
  expect(await serve()).toMatchObject({ code: 0 });
  const keyless = await cella.run(['prompt', '#plain'], { input: '' });
  expect(keyless).toMatchObject({ code: 1, err: expect.stringContaining('cella credentials set anthropic') });
  await setKey();
  const { code, out, err } = await cella.run(['prompt', '#plain'], { input: '' });
  expect({ code, out, err }).toMatchObject({ code: 0, out: 'Hello from the stand-in model.\n' });
  const { out: log } = await cella.run(['sessions', 'logs', 'default']);
  expect(log).toContain('claude> #plain\nHello from the stand-in model.\n');
});

it('is refused with advice by a server with the old master key after a rotation', async () => {
  const before = masterKey();
  const { out } = await cella.run(['credentials', 'rotate', '--json']);
  expect(JSON.parse(out)).toEqual({ rotated: 1, left: [] });
  expect(masterKey()).not.toContain(before);
  await cella.run(['serve', 'stop']);
  const malformed = await serve({ CELLA_MASTER_KEY: 'no-key-at-all' });
  expect(malformed).toMatchObject({
    code: 2,
    err: expect.stringMatching(/CELLA_MASTER_KEY is not a key.*openssl rand/s),
  });
  expect(malformed.err).not.toContain('no-key-at-all');
  expect(await serve({ CELLA_MASTER_KEY: before })).toMatchObject({ code: 0 });
  const asked = model.seen.length;
  const refused = await cella.run(['prompt', '#plain', '--json']);
  expect(refused.code).toBe(1);
  expect(linesOf(refused.out).at(-1)).toMatchObject({
    code: 'CREDENTIAL_UNREADABLE',
    message: expect.stringContaining('another master key'),
    advice: expect.stringContaining('CELLA_MASTER_KEY'),
  });
  expect(model.seen).toHaveLength(asked);
  await cella.run(['serve', 'stop']);
});

it('is answered with the new master key, in the requested session, mode and model', async () => {
  const current = masterKey();
  const file = join(cella.dataDir, 'master-key');
  renameSync(file, `${file}-kept`);
  onTestFinished(() => renameSync(`${file}-kept`, file));
  expect(await serve({ CELLA_MASTER_KEY: current })).toMatchObject({ code: 0 });
  const { id } = JSON.parse((await cella.run(['sessions', 'show', 'default', '--json'])).out);
  model.seen.length = 0;
  const words = [
    '--key',
    'other',
    '--session',
    id,
    '--with',
    'claude',
    '--model',
    'claude-haiku-4-5',
    '--mode',
    'auto-edit',
  ];
  const written = await cella.run(['prompt', '#write /agent/workspace/mode.txt as its mode allows', ...words]);
  expect(written).toMatchObject({ code: 0, out: expect.stringContaining('I write.') });
  expect(new Set(model.seen.map(({ model: asked, key }) => `${asked} ${key}`))).toEqual(
    new Set([`claude-haiku-4-5 ${KEY}`]),
  );
  const log = linesOf((await cella.run(['sessions', 'logs', id, '--json'])).out);
  expect(log).toContainEqual(expect.objectContaining({ type: 'turn_started', agent: 'claude', mode: 'auto-edit' }));
  expect(log).toContainEqual(expect.objectContaining({ type: 'file_changed', path: 'mode.txt', change: 'created' }));
  expect(log.filter(({ type }) => type === 'permission_requested')).toEqual([]);
  expect(JSON.parse((await cella.run(['sessions', 'list', '--json'])).out).sessions).toMatchObject([{ id }]);
  const nobody = await cella.run(['prompt', '#plain', '--with', 'nobody']);
  expect(nobody).toMatchObject({ code: 1, err: expect.stringContaining('There is no agent "nobody"') });
  // No file was made beside the key that was given.
  expect(existsSync(file)).toBe(false);
});

it('is refused again after the key is deleted, and no file ever contained the key', async () => {
  // Links are not followed: one leads to the programs.
  const filesWith = (text: string) =>
    spawnSync('grep', ['-rlaF', '-e', text, cella.dataDir], { encoding: 'utf8' }).stdout;
  expect(filesWith(masterKey())).toBe(`${join(cella.dataDir, 'master-key')}\n`);
  expect(filesWith(KEY)).toBe('');
  const deleted = await cella.run(['credentials', 'delete', 'anthropic']);
  expect(deleted).toMatchObject({ code: 0, out: 'Deleted the key for anthropic.\n' });
  const refused = await cella.run(['prompt', '#plain']);
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('cella credentials set anthropic') });
  await setKey();
});

it('works from a program with its own server, as docs/agents.md describes', async () => {
  await cella.run(['serve', 'stop']);
  const root = join(import.meta.dirname, '..', '..');
  const page = readFileSync(join(root, 'docs', 'agents.md'), 'utf8');
  const [, code = '', output = ''] = /```ts\n([\s\S]*?)```\s+```text\n([\s\S]*?)```/.exec(page) ?? [];
  // Inside the package, so that `cella` is found as a user's program finds it.
  const folder = mkdtempSync(join(root, 'dist', 'turns-page-'));
  try {
    writeFileSync(join(folder, 'page.ts'), code);
    const env = { ...process.env, CELLA_DATA_DIR: cella.dataDir, CELLA_PROVIDER: `anthropic=${model.url}` };
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(folder, 'page.ts')], { env });
    expect({ stdout, stderr }).toEqual({ stdout: output, stderr: '' });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
