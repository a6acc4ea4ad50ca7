/** A server that is killed while somebody's leave is waited for: the next one has the requests, and what comes of them. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { connect } from '../../../src/client/index.ts';
import type { PermissionInfo } from '../../../src/protocol/permission.ts';
import { runHere } from '../../support/cli/cli-here.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import {
  agentServer,
  decide,
  eventsOf,
  hostileRunner,
  namedPrograms,
  prompt,
  until,
} from '../../support/servers/agent-server.ts';
import { SAY } from '../../support/servers/approved-tool.ts';
import type { TestServer } from '../../support/servers/server.ts';

const CHILD = fileURLToPath(new URL('../agents/agent-child.ts', import.meta.url));

let server: TestServer;
let dataDir: string;
/** By what they are for: the session, the turn that waited, the one behind it, and the request. */
const left = new Map<string, { id: string; turn: string; queued: string; permission: string }>();
const leftOf = (name: string) => left.get(name) ?? { id: '', turn: '', queued: '', permission: '' };

async function pending(session: string): Promise<PermissionInfo[]> {
  const path = `GET /v1/sessions/${session}/permissions?state=pending`;
  return (await server.call<{ permissions: PermissionInfo[] }>(path)).json.permissions;
}

const of = (type: string) => (event: { readonly type: string }) => event.type === type;

beforeAll(async () => {
  const [folder, runner, programs] = await Promise.all([scratchFolder(), hostileRunner(), namedPrograms()]);
  dataDir = folder;
  const child = spawn(process.execPath, [CHILD, dataDir, runner, programs], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(child.stdout, 'data');
  const { url, token } = JSON.parse(String(line));
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const ask = async (path: string, body?: object): Promise<{ id: string; permissions: PermissionInfo[] }> => {
    const more = body ? { method: 'POST', body: JSON.stringify(body) } : {};
    return JSON.parse(await (await fetch(new URL(path, url), { headers, ...more })).text());
  };
  const waiting = async (session: string) => {
    for (;;) {
      const [found] = (await ask(`/v1/sessions/${session}/permissions?state=pending`)).permissions;
      if (found) return found.id;
      await setImmediate();
    }
  };
  for (const name of ['decided', 'joined', 'deleted']) {
    const { id } = await ask('/v1/sessions', { agentKey: name });
    const turn = await ask(`/v1/sessions/${id}/prompt`, { prompt: `permit ${name}`, wait: false });
    const queued = await ask(`/v1/sessions/${id}/prompt`, { prompt: 'plain', wait: false });
    left.set(name, { id, turn: turn.id, queued: queued.id, permission: await waiting(id) });
  }
  const { id } = await ask('/v1/sessions', { agentKey: 'kernel' });
  await ask(`/v1/sessions/${id}/tools`, { yaml: SAY });
  const client = await connect({ url, token });
  const session = await client.session(id, { approve: () => new Promise(() => {}) });
  session.run('tools.say("hi").strip()').catch(() => {}); // the server is killed
  left.set('kernel', { ...leftOf(''), id, permission: await waiting(id) });
  child.kill('SIGKILL');
  await Promise.all([once(child, 'exit'), client.close()]);
  expect((await readdir(join(dataDir, 'gates'))).length).toBeGreaterThan(0);
  server = await agentServer({ modelUrl: 'http://127.0.0.1:9', runner, programs, dataDir });
});

describe('a request that an agent waited for when its server was killed', () => {
  test('is pending, its turns are interrupted once, and nothing of the runner is left', async () => {
    // What an executor reached the server by is gone with it.
    expect(existsSync(join(dataDir, 'gates'))).toBe(false);
    const { id, turn, queued, permission } = leftOf('decided');
    expect(await pending(id)).toMatchObject([{ id: permission, turn, summary: 'decided' }]);
    const statusOf = async (one: string) => (await server.call(`GET /v1/sessions/${id}/turns/${one}`)).json.status;
    expect([await statusOf(turn), await statusOf(queued)]).toEqual(['interrupted', 'interrupted']);
    const events = await eventsOf(server, id);
    expect(events.filter((event) => event.type === 'turn_ended' && event.turn === turn)).toHaveLength(1);
    expect(events.filter(of('permission_resolved'))).toEqual([]);
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_event, at) => at + 1));
    const env = { CELLA_URL: server.url, CELLA_TOKEN: server.token };
    const { out } = await runHere(['permissions', 'list'], dataDir, { env });
    for (const name of ['decided', 'joined', 'deleted']) expect(out).toContain(leftOf(name).permission);
  });

  test('is allowed over REST, and the next turn with the same request does not wait, once', async () => {
    const { id, turn, permission } = leftOf('decided');
    const path = `POST /v1/sessions/${id}/permissions/${permission}`;
    expect((await server.call(path, { body: { decision: 'allow' } })).json).toMatchObject({ state: 'resolved' });
    expect(await server.call(path, { body: { decision: 'deny' } })).toMatchObject({ status: 409 });
    const events = await eventsOf(server, id);
    expect(events.at(-1)).toMatchObject({ type: 'permission_resolved', id: permission, turn, outcome: 'allowed' });
    const { json } = await prompt(server, id, 'permit decided');
    expect(json).toMatchObject({ status: 'completed', conversation: `talk-${id}` });
    expect(json.text).toContain('"allowed"');
    const after = events.length;
    expect((await eventsOf(server, id, `&after=${after}`)).filter(of('permission_requested'))).toEqual([]);
    const again = prompt(server, id, 'permit decided');
    expect((await decide(server, id, { decision: 'deny' }, { after })).id).not.toBe(permission);
    expect((await again).json.text).toContain('"denied"');
  });

  test('is joined by a turn with the same request, logged there, and decided over a WebSocket', async () => {
    const { id, permission } = leftOf('joined');
    const after = (await eventsOf(server, id)).length;
    const asking = prompt(server, id, 'permit joined');
    const told = (await until(server, id, of('permission_requested'), { after })).at(-1);
    expect(told).toMatchObject({ id: permission });
    const [only, ...more] = await pending(id);
    expect([only?.id, more]).toEqual([permission, []]);
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/v1/sessions/${id}/ws?after=0`, {
      headers: { authorization: `Bearer ${server.token}` },
    } as unknown as string[]);
    const seen = new Promise((resolve) => {
      socket.onmessage = ({ data }) => {
        const { type, id: named } = JSON.parse(String(data));
        if (type === 'permission_requested' && named === permission) resolve(named);
      };
    });
    await seen;
    socket.send(JSON.stringify({ type: 'permission', id: 1, permission, decision: { decision: 'allow' } }));
    expect((await asking).json.text).toContain('"allowed"');
    socket.close();
    const resolved = (await eventsOf(server, id)).filter(of('permission_resolved'));
    expect(resolved).toMatchObject([{ id: permission, outcome: 'allowed', by: 'local' }]);
  });

  test('ends with a stop, or with its session', async () => {
    const { id, permission } = leftOf('deleted');
    await server.call(`POST /v1/sessions/${id}/stop`);
    const path = `/v1/sessions/${id}/permissions/${permission}`;
    expect((await server.call(`GET ${path}`)).json).toMatchObject({ resolution: { outcome: 'cancelled' } });
    expect((await server.call(`DELETE /v1/sessions/${id}`)).status).toBe(204);
    expect((await server.call(`GET ${path}`)).status).toBe(404);
  });
});

test('a request that kernel code waited for is allowed without a responder, and the same code continues when it runs again, once', async () => {
  const { id, permission } = leftOf('kernel');
  expect(await pending(id)).toMatchObject([{ id: permission, tool: 'say', summary: 'echo hi' }]);
  const decision = { body: { decision: 'allow' } };
  expect((await server.call(`POST /v1/sessions/${id}/permissions/${permission}`, decision)).status).toBe(200);
  const say = () => server.run(id, 'tools.say("hi").strip()');
  expect(await say()).toMatchObject({ status: 'ok', value: 'hi' });
  expect(JSON.stringify(await say())).toContain('nobody can be asked');
  const resolved = (await eventsOf(server, id)).filter(of('permission_resolved'));
  expect(resolved).toMatchObject([{ id: permission, outcome: 'allowed', by: 'local' }]);
});
