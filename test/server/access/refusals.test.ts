/** What was refused is in the audit log and in a metric, and nobody can fill the log by being refused. */

import { once } from 'node:events';
import { chmodSync, mkdirSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { type AuditRecord, type RefusalKind, refusalKinds } from '../../../src/protocol/access-models.ts';
import { CloseCode } from '../../../src/protocol/api/socket-frames.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { agentServer, hostileRunner, namedPrograms, prompt } from '../../support/servers/agent-server.ts';
import { SAY } from '../../support/servers/approved-tool.ts';
import type { TestServer } from '../../support/servers/server.ts';

let server: TestServer;

beforeAll(async () => {
  const [runner, programs] = [await hostileRunner(), await namedPrograms()];
  server = await agentServer({ modelUrl: 'http://127.0.0.1:9', runner, programs });
});

async function refusalsOf(kind: string): Promise<AuditRecord[]> {
  const { json } = await server.call<{ entries: AuditRecord[] }>('GET /v1/audit?limit=1000');
  return json.entries.filter((entry) => entry.kind === kind);
}

async function countOf(kind: RefusalKind): Promise<number> {
  const { text } = await server.call('GET /metrics');
  return Number(new RegExp(`^cella_refused_total\\{kind="${kind}"\\} (\\d+)$`, 'm').exec(text)?.[1]);
}

describe('refused attempts are in the audit log and counted', () => {
  it.each<[RefusalKind, string, Parameters<TestServer['call']>[1], Partial<AuditRecord>]>([
    ['token', 'GET /v1/me', { token: 'cella_abc_def' }, { from: '127.0.0.1', code: 'UNAUTHENTICATED' }],
    ['login', 'POST /login?code=wrong', { token: null }, { action: 'login' }],
    ['origin', 'GET /v1/me', { headers: { origin: 'https://evil.example' } }, { code: 'FORBIDDEN' }],
    ['not_found', 'DELETE /v1/sessions/ses_0000000000000000', {}, { userName: 'local', code: 'NOT_FOUND' }],
    ['invalid', 'POST /v1/users', { body: { name: '', role: 'king' } }, { outcome: 'failed', code: 'INVALID_REQUEST' }],
  ])('%s: %s', async (kind, call, options, entry) => {
    const before = await countOf(kind);
    expect((await server.call(call, options)).status).toBeGreaterThanOrEqual(400);
    expect(await countOf(kind)).toBe(before + 1);
    await expect.poll(() => refusalsOf(kind)).toContainEqual(expect.objectContaining({ outcome: 'refused', ...entry }));
  });

  it('routes without permission, with the user', async () => {
    const token = await server.user('vera', 'viewer');
    await server.call('GET /v1/users', { token });
    await server.call('POST /v1/sessions', { token, body: {} });
    const entries = await refusalsOf('forbidden');
    expect(entries).toMatchObject([
      { userName: 'vera', action: 'get /v1/users', code: 'FORBIDDEN' },
      { userName: 'vera', action: 'session.create' },
    ]);
  });

  it('paths that lead out of the workspace, with the session', async () => {
    const { id } = await server.session({ agentKey: 'paths' });
    for (const path of ['../x', '/etc/passwd']) {
      const { status } = await server.call(`PUT /v1/sessions/${id}/files/content?path=${encodeURIComponent(path)}`, {
        body: 'x',
      });
      expect(status).toBe(400);
    }
    const entries = await refusalsOf('path');
    expect(entries).toHaveLength(2);
    expect(entries[0]).toMatchObject({ session: id, action: 'file.write', target: '../x', userName: 'local' });
  });

  it('a link in the place of a session’s folder, also when a kernel starts there', async () => {
    const folder = await scratchFolder();
    const cwd = join(folder, 'own');
    mkdirSync(cwd);
    chmodSync(cwd, 0o777);
    const { id } = await server.session({ agentKey: 'moved', cwd });
    renameSync(cwd, `${cwd}-away`);
    symlinkSync('/etc', cwd);
    const before = await countOf('path');
    for (const call of [`GET /v1/sessions/${id}/files`, `POST /v1/sessions/${id}/execute`]) {
      const body = call.startsWith('POST') ? { code: '1' } : undefined;
      expect((await server.call(call, { body })).status).toBe(409);
    }
    expect(await countOf('path')).toBe(before + 2);
    const entry = { outcome: 'refused', session: id, code: 'FOLDER_REPLACED' };
    const entries = (await refusalsOf('path')).filter(({ session }) => session === id);
    expect(entries).toMatchObject([
      { ...entry, action: 'get /v1/sessions/{id}/files' },
      { ...entry, action: 'session.execute' },
    ]);
  });

  it('attempts of a session’s code: invalid frames, unknown calls', async () => {
    const { id } = await server.session({ agentKey: 'hostile' });
    await server.run(id, 'from cella_kernel.namespaces import host\nhost.call("tools.everything")');
    expect(await refusalsOf('namespace')).toMatchObject([{ session: id, userId: 'local', detail: 'tools.everything' }]);
    await server.run(
      id,
      'import os\nfor fd in range(3, 300):\n  try: os.write(fd, b"\\xff" * 64)\n  except OSError: pass',
    );
    const entries = await refusalsOf('kernel_protocol');
    expect(entries).toMatchObject([{ session: id, userId: 'local', code: 'KERNEL_PROTOCOL' }]);
    expect(await countOf('kernel_protocol')).toBe(1);
  });

  /** Waits for the entry: what happens beside a request is told a moment after it. */
  const told = async (kind: RefusalKind, before: number, ...entries: object[]) => {
    await expect
      .poll(() => refusalsOf(kind))
      .toEqual(
        expect.arrayContaining(entries.map((entry) => expect.objectContaining({ outcome: 'refused', ...entry }))),
      );
    expect(await countOf(kind)).toBe(before + entries.length);
  };

  it('a runner that names another session', async () => {
    const { id } = await server.session({ agentKey: 'runner' });
    const before = await countOf('runner_protocol');
    expect((await prompt(server, id, 'session')).json.status).toBe('failed');
    await told('runner_protocol', before, { session: id, userId: 'local', code: 'RUNNER_PROTOCOL' });
  });

  it('session tokens that are forged, at the MCP server and at the gateway', async () => {
    const { id } = await server.session({ agentKey: 'forged' });
    const before = await countOf('session_token');
    const token = `cst_aaaaaaaaaaaaaaaa_${'a'.repeat(43)}`;
    const asked = ['/mcp', '/anthropic/v1/messages'].map((path) => ({ path, token, body: {} }));
    expect((await prompt(server, id, `ask ${JSON.stringify(asked)}`)).json.text).toBe('401 401');
    const entry = { session: id, code: 'UNAUTHENTICATED' };
    await told('session_token', before, entry, { ...entry, detail: expect.stringContaining('anthropic') });
  });

  it('model calls that the gateway refuses', async () => {
    const { id } = await server.session({ agentKey: 'gateway' });
    const before = await countOf('gateway');
    const body = { model: 'claude-sonnet-4-5', max_tokens: 9, messages: [], safeguards: [] };
    const asked = [{ path: '/anthropic/v1/messages', body }];
    expect((await prompt(server, id, `ask ${JSON.stringify(asked)}`)).json.text).toBe('400');
    await told('gateway', before, { session: id, detail: expect.stringContaining('safeguards') });
  });

  it('hosts that the network policy of a session does not list', async () => {
    const { id } = await server.session({ sandbox: { network: { allow: ['example.org'] } } });
    const before = await countOf('proxy');
    const code = `
import urllib.request
try: urllib.request.urlopen('http://other.example/x', timeout=20)
except OSError as error: print(error.code)`;
    expect(await server.run(id, code)).toMatchObject({ stdout: '403\n' });
    await told('proxy', before, { session: id, userId: 'local', detail: 'other.example:80' });
  });

  it('tools that nobody allowed', async () => {
    const { id } = await server.session({ agentKey: 'permission' });
    const before = await countOf('permission');
    await server.call(`POST /v1/sessions/${id}/tools`, { body: { yaml: SAY } });
    expect(await server.run(id, 'tools.say("hi")')).toMatchObject({ status: 'error' });
    await told('permission', before, { session: id, userId: 'local' });
  });

  it('requests over a quota', async () => {
    const token = await server.user('quin', 'member');
    await server.call('PATCH /v1/users/quin', { body: { quotas: { sessions: 1 } } });
    const before = await countOf('quota');
    await server.session({ agentKey: 'first' }, token);
    expect((await server.call('POST /v1/sessions', { token, body: { agentKey: 'second' } })).status).toBe(429);
    await told('quota', before, { userName: 'quin', action: 'session.create', code: 'QUOTA_EXCEEDED' });
  });
});

it('a viewer who is refused a thousand times causes few entries, and others lose none', async () => {
  const token = await server.user('flo', 'viewer');
  const { id } = await server.session({ agentKey: 'flooded', shares: [{ user: 'flo', right: 'view' }] });
  const before = await countOf('forbidden');
  for (let round = 0; round < 20; round++) {
    await Promise.all(
      Array.from({ length: 50 }, () => server.call(`POST /v1/sessions/${id}/execute`, { token, body: { code: '1' } })),
    );
  }
  await server.call(`PATCH /v1/sessions/${id}`, { body: { labels: { after: 'flood' } } });
  const { json } = await server.call<{ entries: AuditRecord[] }>(`GET /v1/audit?limit=1000&session=${id}`);
  const refused = json.entries.filter(({ outcome }) => outcome === 'refused');
  expect(refused.length).toBeGreaterThan(0);
  expect(refused.length).toBeLessThan(20);
  expect(json.entries.at(-1)).toMatchObject({ action: 'session.update', outcome: 'ok' });
  expect((await countOf('forbidden')) + (await countOf('rate'))).toBeGreaterThanOrEqual(before + 1000);
});

it('requests over the rate limit are counted too', async () => {
  let status = 401;
  while (status === 401) status = (await server.call('GET /v1/me', { token: 'cella_abc_def' })).status;
  expect(status).toBe(429);
  expect(await countOf('rate')).toBeGreaterThan(0);
  expect(await refusalsOf('rate')).toContainEqual(expect.objectContaining({ from: '127.0.0.1', code: 'RATE_LIMITED' }));
});

/** The close code of `ws` if a message has too many parts. */
const POLICY_VIOLATION = 1008;

it.each<[string, string, (socket: WebSocket) => void, number]>([
  ['frames', 'ws', (socket) => socket.send('{"type":"ping","id":1}'), 3000],
  ['control frames', 'ws', (socket) => socket.pong(), 3000],
  ['frames of a terminal', 'terminal', (socket) => socket.send('{"type":"resize","cols":80,"rows":24}'), 3000],
  ['fragments of a message', 'ws', (socket) => socket.send('', { fin: false }), 30_000],
])('too many %s on a WebSocket are counted, and in the audit log with the session', async (what, path, send, count) => {
  const user = what.replaceAll(' ', '-');
  const token = await server.user(user, 'member');
  const { id } = await server.session({}, token);
  const before = await countOf('rate');
  const socket = new WebSocket(`${server.url.replace('http', 'ws')}/v1/sessions/${id}/${path}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  socket.on('error', () => {}); // the server may end the connection before it has read everything
  const closed = once(socket, 'close');
  await once(socket, 'open');
  for (let n = 0; n < count; n++) send(socket);
  const [code] = await closed;
  expect([CloseCode.tooMuch, POLICY_VIOLATION, 1006]).toContain(code);
  await expect.poll(() => countOf('rate')).toBe(before + 1);
  const entry = { session: id, userName: user, code: 'RATE_LIMITED', action: `get /v1/sessions/{id}/${path}` };
  await expect.poll(() => refusalsOf('rate')).toContainEqual(expect.objectContaining(entry));
});

it('each kind was refused here, and the metric has no other kinds', async () => {
  const { text } = await server.call('GET /metrics');
  const counted = [...text.matchAll(/^cella_refused_total\{kind="(\w+)"\} [1-9]\d*$/gm)].map(([, kind]) => kind);
  expect(counted.toSorted()).toEqual(refusalKinds.toSorted());
});
