/** A list of hosts as the network of a session at a server: who may ask for it, and what its log tells. */

import { beforeAll, expect, test } from 'vitest';
import { TestServer } from '../../support/servers/server.ts';

let server: TestServer;

beforeAll(async () => {
  server = await TestServer.start();
});

test('a denied attempt is an event of the session, once', async () => {
  const { id, settings } = await server.session({ sandbox: { network: { allow: ['Example.ORG.', '10.0.0.5:5432'] } } });
  expect(settings.sandbox).toMatchObject({ network: { allow: ['example.org', '10.0.0.5:5432'] } });
  const code = `
import urllib.request
for _ in range(20):
    try:
        urllib.request.urlopen('http://other.example/x', timeout=20)
    except OSError as error:
        print(error.code)
`;
  expect(await server.run(id, code)).toMatchObject({ status: 'ok', stdout: '403\n'.repeat(20) });
  const denied = { type: 'network_denied', host: 'other.example', port: 80, reason: 'not_listed' };
  await expect
    .poll(async () => {
      const { json } = await server.call<{ events: { type: string }[] }>(`GET /v1/sessions/${id}/events`);
      return json.events.filter(({ type }) => type === 'network_denied');
    })
    .toEqual([expect.objectContaining(denied)]);
});

test('members need permission for it, as for the network of the machine', async () => {
  const token = await server.user('mia', 'member');
  const body = { sandbox: { network: { allow: ['127.0.0.1:6379'] } } };
  const { status, json } = await server.call('POST /v1/sessions', { token, body });
  expect([status, json]).toEqual([
    403,
    expect.objectContaining({ error: expect.objectContaining({ code: 'FORBIDDEN' }) }),
  ]);
});

test.each(['http://a.org', 'user@a.org', '0x7f.1', '*.org', 'a.org/b', ''])('%j is not a valid entry', async (host) => {
  const body = { sandbox: { network: { allow: [host] } } };
  const { status, text } = await server.call('POST /v1/sessions', { body });
  expect([status, text]).toEqual([400, expect.stringContaining('must be a host')]);
});
