/** The first prompt of a newcomer, with the command line as it is built: a server, a key, the real Claude in its sandbox. */

import { symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
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
