/** Sessions whose kernel sleeps: whoever only looks at one does not wake it. */

import { expect, test } from 'vitest';
import { scratchFolder } from '../../support/kernels/session.ts';
import { TestServer } from '../../support/servers/server.ts';

test('files, history, events and details of a session are available after a restart, and no kernel resumes', async () => {
  const dataDir = await scratchFolder();
  const before = await TestServer.start({ dataDir });
  const { id } = await before.session({ agentKey: 'sleeper' });
  await before.run(id, 'open("kept.txt", "w").write("kept")');
  await before.run(id, 'x = 41\nprint("said")');
  await before.run(
    id,
    'artifacts.save("told", "text")\nskills.create("add", "async def run(a, b):\\n    return a + b")',
  );
  const forked = await before.call<{ id: string }>(`POST /v1/sessions/${id}/fork`, { body: { agentKey: 'branch' } });
  await before[Symbol.asyncDispose]();

  const server = await TestServer.start({ dataDir });
  const never = await server.session({ agentKey: 'never' });
  const stateOf = async (session: string) => (await server.call(`GET /v1/sessions/${session}`)).json.state;
  const read = async (session: string) => ({
    files: (await server.call<{ files: object[] }>(`GET /v1/sessions/${session}/files`)).json.files,
    text: (await server.call(`GET /v1/sessions/${session}/files/content?path=kept.txt`)).text,
  });
  for (const session of [id, forked.json.id]) {
    expect(await read(session)).toMatchObject({ files: [{ name: 'kept.txt', size: 4 }], text: 'kept' });
  }
  const { json } = await server.call<{ history: object[] }>(`GET /v1/sessions/${id}/history`);
  expect(json.history).toMatchObject([
    { execution: 1, code: 'open("kept.txt", "w").write("kept")', status: 'ok' },
    { execution: 2, status: 'ok' },
    { execution: 3, status: 'ok' },
  ]);
  const listed = { tools: [], skills: [{ name: 'add' }], artifacts: [{ name: 'told' }], deps: [] };
  for (const [kind, things] of Object.entries(listed)) {
    expect((await server.call(`GET /v1/sessions/${id}/${kind}`)).json).toMatchObject({ [kind]: things });
    expect((await server.call(`GET /v1/${kind}`)).json).toMatchObject({ [kind]: things });
  }
  expect((await server.call(`GET /v1/sessions/${id}/skills/add`)).json).toMatchObject({ name: 'add' });
  expect((await server.call(`GET /v1/sessions/${never.id}/artifacts/told`)).json).toMatchObject({ name: 'told' });
  expect((await server.call(`GET /v1/sessions/${never.id}/history`)).json).toEqual({ history: [] });
  expect((await server.call(`GET /v1/sessions/${id}/events`)).text).toContain('said');
  await server.fetch(`PUT /v1/sessions/${id}/files/content?path=more.txt`, { body: 'more' });
  for (const session of [id, forked.json.id, never.id]) expect(await stateOf(session)).toBe('hibernated');
  expect((await server.call('GET /metrics')).text).toMatch(/^cella_kernels_live 0$/m);

  expect(await server.run(id, 'x + 1, open("more.txt").read()')).toMatchObject({ value: [42, 'more'] });
  expect((await server.call<{ files: object[] }>(`GET /v1/sessions/${never.id}/files`)).json.files).toEqual([]);
});
