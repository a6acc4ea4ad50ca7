/** Permissions over HTTP: who may decide, under whose name a decision is recorded, and the rules of a user. */

import { beforeAll, describe, expect, it } from 'vitest';
import type { ClientSession } from '../../../src/client/index.ts';
import { SAY } from '../../support/servers/approved-tool.ts';
import { connectTo, sharedServer } from '../../support/servers/client.ts';
import type { TestServer } from '../../support/servers/server.ts';

let server: TestServer;
let member: string;
beforeAll(async () => {
  server = await sharedServer();
  const { id } = await server.session({ agentKey: 'permissions' });
  await server.call(`POST /v1/sessions/${id}/tools`, { body: { yaml: SAY } });
  member = await server.user('member', 'member');
});

let made = 0;
const newSession = async (settings: Record<string, unknown> = {}) =>
  (await server.session({ agentKey: `permissions ${made++}`, ...settings })).id;

/** Code that waits in a tool, with a responder that never answers. */
async function waiting(id: string, words = 'hi') {
  const client = await connectTo(server, 'url');
  const asked = Promise.withResolvers<void>();
  const session = await client.session(id, {
    approve: () => {
      asked.resolve();
      return new Promise(() => {});
    },
  });
  const running = session.run(`tools.say("${words}").strip()`);
  await asked.promise;
  const [permission] = await session.permissions({ state: 'pending' });
  return { session, running, permission: permission?.id ?? '', info: permission };
}

const decide = (id: string, permission: string, body: unknown, token?: string) =>
  server.call(`POST /v1/sessions/${id}/permissions/${permission}`, { body, token });

describe('a permission of a server', () => {
  it('cannot be decided in the name of another user: the client said who had decided', async () => {
    const id = await newSession({ shares: [{ role: 'member', right: 'use' }] });
    const { running, permission, info, session } = await waiting(id);
    expect(info).toMatchObject({ tool: 'say', summary: 'echo hi', user: 'local', exactly: 'echo hi' });
    for (const lie of [{ by: 'local' }, { user: 'local' }, { decided_by: 'local' }]) {
      const refused = await decide(id, permission, { decision: 'allow', ...lie }, member);
      expect(refused).toMatchObject({ status: 400, json: { error: { code: 'INVALID_REQUEST' } } });
    }
    const { status, json } = await decide(id, permission, { decision: 'allow' }, member);
    expect([status, json]).toMatchObject([200, { resolution: { by: expect.stringMatching(/^member~/) } }]);
    expect(await running).toMatchObject({ status: 'ok', value: 'hi' });
    await expect(session.decidePermission(permission, { decision: 'deny' })).rejects.toMatchObject({
      code: 'ALREADY_RESOLVED',
      details: { outcome: 'allowed', by: expect.stringMatching(/^member~/) },
    });
  });

  it('is visible with `view`, decided with `use`, and does not exist for others', async () => {
    const id = await newSession({ shares: [{ role: 'viewer', right: 'view' }] });
    const stranger = await newSession();
    const { running, permission } = await waiting(id);
    const one = `/v1/sessions/${id}/permissions/${permission}`;
    expect(await server.call(`GET ${one}`, { token: member })).toMatchObject({
      status: 200,
      json: { state: 'pending' },
    });
    expect(await decide(id, permission, { decision: 'allow' }, member)).toMatchObject({ status: 403 });
    expect(await server.call(`GET /v1/sessions/${stranger}/permissions`, { token: member })).toMatchObject({
      status: 404,
    });
    expect(await decide(stranger, permission, { decision: 'allow' })).toMatchObject({ status: 404 });
    expect(await server.call(`GET /v1/sessions/${id}/permissions`, { token: null })).toMatchObject({ status: 401 });
    expect(await decide(id, permission, { decision: 'deny', reason: 'no' })).toMatchObject({ status: 200 });
    expect((await running).error?.message).toContain('no');
  });

  it('is decided over a WebSocket, too', async () => {
    const id = await newSession();
    const { running, permission } = await waiting(id);
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/v1/sessions/${id}/ws`, {
      headers: { authorization: `Bearer ${server.token}` },
    } as unknown as string[]);
    const reply = new Promise<unknown>((resolve) => {
      socket.onmessage = ({ data }) => {
        const frame = JSON.parse(String(data));
        if (frame.type === 'reply' || frame.type === 'error') resolve(frame);
      };
    });
    await new Promise((resolve) => {
      socket.onopen = resolve;
    });
    const lie = { type: 'permission', id: 1, permission, decision: { decision: 'allow', by: 'somebody' } };
    socket.send(JSON.stringify(lie));
    expect(await reply).toMatchObject({ type: 'error', error: { code: 'INVALID_REQUEST' } });
    socket.send(JSON.stringify({ ...lie, decision: { decision: 'allow' } }));
    expect(await running).toMatchObject({ value: 'hi' });
    socket.close();
  });

  it('creates a rule for the user who decides: only for that user, for exactly this text, until it is deleted', async () => {
    const id = await newSession({ shares: [{ role: 'member', right: 'use' }] });
    const { running, permission, session } = await waiting(id, 'rule');
    await session.decidePermission(permission, { decision: 'allow', scope: 'always' });
    expect(await running).toMatchObject({ value: 'rule' });
    const alone = await newSession({ shares: [{ role: 'member', right: 'use' }] });
    const say = (words: string, token?: string) =>
      server.call(`POST /v1/sessions/${alone}/execute`, { body: { code: `tools.say("${words}").strip()` }, token });
    // There is no responder, so only the rule can allow it.
    expect((await say('rule')).json).toMatchObject({ status: 'ok' });
    expect((await say('rule; id')).json).toMatchObject({ status: 'error' });
    expect((await say('rule', member)).json).toMatchObject({ status: 'error' });
    const client = await connectTo(server, 'url');
    const [rule] = await client.permissionRules.list();
    expect(rule).toMatchObject({ tool: 'tools.say', pattern: 'echo rule', by: 'local' });
    expect(await server.call(`DELETE /v1/permission-rules/${rule?.id}`, { token: member })).toMatchObject({
      status: 404,
    });
    await client.permissionRules.delete(rule?.id ?? '');
    expect((await say('rule')).json).toMatchObject({ status: 'error' });
    const added = await client.permissionRules.create({ tool: 'tools.say', pattern: 'echo o*' });
    expect((await say('other')).json).toMatchObject({ status: 'ok' });
    await client.permissionRules.delete(added.id);
    await expect(client.permissionRules.create({ tool: 'Bash', pattern: 'a\nb' })).rejects.toMatchObject({
      code: 'INVALID_REQUEST',
    });
  });

  it('creates a rule for its session, which other users of it share', async () => {
    const id = await newSession({ shares: [{ role: 'member', right: 'use' }] });
    const { running, permission, session } = await waiting(id, 'shared');
    await session.decidePermission(permission, { decision: 'allow', scope: 'session', pattern: 'echo s*' });
    await running;
    const body = { code: 'tools.say("same").strip()' };
    expect((await server.call(`POST /v1/sessions/${id}/execute`, { body, token: member })).json).toMatchObject({
      status: 'ok',
    });
    const [rule] = await session.permissionRules();
    expect(rule).toMatchObject({ tool: 'tools.say', pattern: 'echo s*', session: id });
    await session.deletePermissionRule(rule?.id ?? '');
    expect(await rulesLeft(session)).toBe(0);
  });
});

const rulesLeft = async (session: ClientSession) => (await session.permissionRules()).length;
