/** A rule for "exactly this again" allows what was shown, and nothing that differs in anything that the call does. */

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentRuleTarget } from '../../../src/server/permissions/permission-rules.ts';
import { SAY } from '../../support/servers/approved-tool.ts';
import { connectTo } from '../../support/servers/client.ts';
import { TestServer } from '../../support/servers/server.ts';

const server = createServer((_request, response) => response.end('done'));
let cella: TestServer;
let own: string;
let made = 0;

const definition = (more = '') => `name: web
description: Calls the test's server
type: http
method: POST
url: http://127.0.0.1:${(server.address() as AddressInfo).port}/
headers: { x-target: "{target}" }
body: { text: "{text}" }
parameters: { target: { required: true }, text: { required: true } }
requires_approval: true
${more}`;

async function putTool(yaml: string): Promise<void> {
  const { status, text } = await cella.call(`POST /v1/sessions/${own}/tools`, { body: { yaml, replace: true } });
  if (status >= 300) throw new Error(text);
}

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cella = await TestServer.start();
  own = (await cella.session({ agentKey: 'own' })).id;
  await putTool(definition());
});
afterAll(() => server.close());

/** Runs code in a session where somebody is there, who decides what is asked. Gives how often that was, and what came of it. */
async function run(session: string, code: string, decision: object, token = cella.token) {
  const client = await connectTo(cella, 'url');
  let asked = 0;
  const responder = await client.session(session, {
    approve: async () => {
      const { json } = await cella.call<{ permissions: { id: string }[] }>(
        `GET /v1/sessions/${session}/permissions?state=pending`,
      );
      // What a rule has allowed is told as well, and waits for nobody.
      const [waiting] = json.permissions;
      if (!waiting) return undefined;
      asked++;
      await cella.call(`POST /v1/sessions/${session}/permissions/${waiting.id}`, { body: decision });
      return undefined;
    },
  });
  const { json } = await cella.call(`POST /v1/sessions/${session}/execute`, { body: { code }, token });
  await responder.close();
  return { asked, status: json.status };
}

const newSession = async () => (await cella.session({ agentKey: `rules ${made++}` })).id;
const call = (target: string, text: string) => `tools.web(target=${JSON.stringify(target)}, text=${text})`;
const always = { decision: 'allow', scope: 'session' };
const deny = { decision: 'deny' };

describe('a rule for exactly this call', () => {
  it('applies to the same call, and not if a header differs', async () => {
    const id = await newSession();
    expect(await run(id, call('staging', '"x"'), always)).toEqual({ asked: 1, status: 'ok' });
    expect(await run(id, call('staging', '"x"'), deny)).toEqual({ asked: 0, status: 'ok' });
    expect(await run(id, call('production', '"x"'), deny)).toEqual({ asked: 1, status: 'error' });
  });

  it('does not apply if a long body differs at its beginning, its middle or its end', async () => {
    const id = await newSession();
    const body = (at: number) => `"a" * ${at} + "b" + "a" * ${20_000 - at}`;
    expect(await run(id, call('x', body(0)), always)).toEqual({ asked: 1, status: 'ok' });
    expect(await run(id, call('x', body(0)), deny)).toEqual({ asked: 0, status: 'ok' });
    for (const at of [1, 10_000, 20_000]) {
      expect(await run(id, call('x', body(at)), deny)).toEqual({ asked: 1, status: 'error' });
    }
  });

  it('does not apply after the definition of the tool has changed', async () => {
    const id = await newSession();
    await run(id, call('staging', '"x"'), always);
    await putTool(definition('timeout: 7'));
    expect(await run(id, call('staging', '"x"'), deny)).toEqual({ asked: 1, status: 'error' });
    await putTool(definition());
    expect(await run(id, call('staging', '"x"'), deny)).toEqual({ asked: 0, status: 'ok' });
  });

  it('of the user who runs a cell does not apply to code that another user has left in the session', async () => {
    await putTool(SAY);
    const bob = await cella.user('bob', 'member');
    const ann = await cella.user('ann', 'member');
    await cella.call('POST /v1/permission-rules', { token: bob, body: { tool: 'tools.say', pattern: 'echo hi' } });
    const shares = [{ user: 'bob', right: 'use' }];
    const { id } = await cella.session({ agentKey: 'shared', shares }, ann);
    const plant = 'import builtins\nreal = sum\nbuiltins.sum = lambda it: (tools.say("hi"), real(it))[1]';
    await cella.call(`POST /v1/sessions/${id}/execute`, { body: { code: plant }, token: ann });
    expect(await run(id, 'sum([1])', deny, bob)).toEqual({ asked: 1, status: 'error' });
    // In a session of his own it is.
    const his = await cella.session({ agentKey: 'his' }, bob);
    const { json } = await cella.call(`POST /v1/sessions/${his.id}/execute`, {
      ...{ body: { code: 'tools.say("hi")' }, token: bob },
    });
    expect(json).toMatchObject({ status: 'ok' });
  });
});

describe('the text that a rule for an agent’s tool matches', () => {
  it.each([
    ['Bash', { command: 'ls', description: 'x', timeout: 5 }, 'ls'],
    ['Bash', { command: 'ls', run_in_background: true }, '{"command":"ls","run_in_background":true}'],
    ['Bash', { command: 'ls', dangerouslyDisableSandbox: true }, '{"command":"ls","dangerouslyDisableSandbox":true}'],
    ['Bash', { command: 'ls', run_in_background: false }, 'ls'],
    ['Write', { file_path: '/a/b', content: 'x' }, '/a/b'],
    ['Write', { file_path: '/a/b', mode: '0777' }, '{"file_path":"/a/b","mode":"0777"}'],
  ])('%s %j: %s', (tool, input, text) => {
    expect(agentRuleTarget({ tool, summary: '', input })?.text).toBe(text);
  });
});
