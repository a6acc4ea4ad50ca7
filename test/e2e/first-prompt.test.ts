/** The first prompts of a newcomer, at the command line and in a program, as they are built: a server, a key, the real Claude in its sandbox. */

import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Model } from '../support/model.ts';
import { sharedProgram } from '../support/shared-agents.ts';
import { Cella } from './command.ts';

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

it('is refused without a key, answered with one, and stands in the log', async () => {
  const served = await cella.run(['serve', '--detach', '--port', '0', '--provider', `anthropic=${model.url}`]);
  expect(served).toMatchObject({ code: 0 });
  const keyless = await cella.run(['agent', '#plain'], { input: '' });
  expect(keyless).toMatchObject({ code: 1, err: expect.stringContaining('cella credentials set anthropic') });
  await cella.run(['credentials', 'set', 'anthropic'], { input: 'sk-ant-of-a-newcomer-0123456789\n' });
  const { code, out, err } = await cella.run(['agent', '#plain'], { input: '' });
  expect({ code, out, err }).toMatchObject({ code: 0, out: 'Hello from the stand-in model.\n' });
  const { out: log } = await cella.run(['sessions', 'logs', 'default']);
  expect(log).toContain('claude> #plain\nHello from the stand-in model.\n');
});

it('comes from a program with a server of its own, which does what docs/turns.md says', async () => {
  await cella.run(['serve', 'stop']);
  const root = join(import.meta.dirname, '..', '..');
  const page = readFileSync(join(root, 'docs', 'turns.md'), 'utf8');
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
