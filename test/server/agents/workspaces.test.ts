/** The real Claude by way of a server in places that are not what they should be: without a sandbox, and with links out of the workspace. */

import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Model } from '../../support/agents/model.ts';
import { sharedProgram } from '../../support/agents/shared-agents.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { canariesIn } from '../../support/processes/canary.ts';
import { descendants } from '../../support/processes/processes.ts';
import { agentServer, bundledRunner, eventsOf, KEY, prompt } from '../../support/servers/agent-server.ts';
import type { TestServer } from '../../support/servers/server.ts';

const PROBE = '/etc/cella-probe-of-a-link';

let model: Model;
let server: TestServer;
let dataDir: string;

beforeAll(async () => {
  model = await Model.start();
  dataDir = await scratchFolder();
  const [runner, program] = await Promise.all([bundledRunner(), sharedProgram('claude')]);
  server = await agentServer({ modelUrl: model.url, runner, programs: dirname(dirname(program)), dataDir });
}, 180_000);
afterAll(() => model[Symbol.asyncDispose]());

test('without a sandbox, no process, file, event or transcript of an agent contains the key either', async () => {
  const { id } = await server.session({ agentKey: 'open', sandbox: 'off' });
  const hangs = model.hangs();
  const turn = prompt(server, id, '#hang');
  await hangs;
  const below = descendants(process.pid);
  const agent = below.find(({ command }) => command.includes('claude-agent-sdk-linux'));
  const runner = below.find(({ pid }) => pid === agent?.parent);
  expect(runner?.command).toContain('cella-runner.mjs');
  expect(canariesIn(KEY, { processes: [runner?.pid ?? 0], memory: true })).toEqual([]);
  await server.call(`POST /v1/sessions/${id}/stop`);
  expect((await turn).json.status).toBe('cancelled');
  expect((await prompt(server, id, '#plain')).json.status).toBe('completed');
  const { text: transcript } = await server.call(`GET /v1/sessions/${id}/transcript`);
  expect(transcript).toContain('Hello from the stand-in model.');
  const texts = { events: JSON.stringify(await eventsOf(server, id)), transcript };
  expect(canariesIn(KEY, { folders: [dataDir], texts })).toEqual([]);
  // It went out with the calls all the same.
  expect(model.seen.map(({ key }) => key)).toContain(KEY);
});

test('a link to /etc in the workspace gives an agent in bypass mode nothing of the host', async () => {
  const { id } = await server.session({ agentKey: 'linked' });
  const { value } = await server.run(id, 'import os\nos.symlink("/etc", "etc")\nos.getcwd()');
  const mode = 'bypass';
  await prompt(server, id, `#write ${value}/etc/${PROBE.slice('/etc/'.length)} mine`, { mode });
  await prompt(server, id, `#run echo mine > etc/${PROBE.slice('/etc/'.length)}; cat etc/shadow etc/hostname`, {
    mode,
  });
  const ended = (await eventsOf(server, id)).filter(({ type }) => type === 'item_completed');
  const tools = ended.flatMap((event) => ('kind' in event && event.kind === 'tool' ? [event] : []));
  expect(tools).toHaveLength(2);
  expect(tools[0]).toMatchObject({ tool: 'Write', status: 'failed' });
  expect(existsSync(PROBE)).toBe(false);
  const shadow = readFileSync('/etc/shadow', 'utf8').split('\n')[0] ?? '';
  expect(JSON.stringify(ended)).not.toContain(shadow);
});

test('a link in place of a profile’s file is not followed when the file is written', async () => {
  const outside = await scratchFolder();
  const profile = { files: { 'notes/read.me': 'of the profile' } };
  expect((await server.call('PUT /v1/profiles/linked', { body: profile })).status).toBeLessThan(300);
  const { id } = await server.session({ agentKey: 'laid out' });
  await server.run(id, `import os\nos.symlink(${JSON.stringify(outside)}, "notes")`);
  const { id: honest } = await server.session({ agentKey: 'laid out as meant' });
  for (const each of [id, honest]) await prompt(server, each, '#plain', { profile: 'linked' });
  expect((await server.run(honest, 'open("notes/read.me").read()')).value).toBe('of the profile');
  expect(existsSync(join(outside, 'read.me'))).toBe(false);
  const notices = (await eventsOf(server, id)).filter(({ type }) => type === 'agent_notice');
  const text =
    'One file of the profile could not be written to the workspace: "notes" cannot be used: it leads out of its folder.';
  expect(notices).toMatchObject([{ text }]);
});
