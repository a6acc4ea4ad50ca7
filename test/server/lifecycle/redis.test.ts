/** The server with Redis as its storage: sessions, users and events are there after a restart, wherever it runs. */

import { afterAll, beforeAll, expect, it } from 'vitest';
import { RedisStorage } from '../../../src/storage/redis/redis-storage.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { RedisServer } from '../../support/servers/redis.ts';
import { TestServer } from '../../support/servers/server.ts';

let redis: RedisServer;
beforeAll(async () => {
  redis = await RedisServer.start();
});
afterAll(() => redis[Symbol.asyncDispose]());

it('continues after a restart with the same sessions, users, tokens and events', async () => {
  const dataDir = await scratchFolder();
  const open = () => RedisStorage.open(redis.url, { prefix: 'served' });
  let token = '';
  let id = '';
  let before: unknown;
  {
    await using storage = await open();
    await using server = await TestServer.start({ dataDir, storage });
    token = await server.user('ada', 'member');
    id = (await server.session({ agentKey: 'one' }, token)).id;
    const run = await server.call(`POST /v1/sessions/${id}/execute`, { token, body: { code: 'x = 41; print(x)' } });
    expect(run.json).toMatchObject({ status: 'ok', stdout: '41\n' });
    before = (await server.call<{ events: unknown[] }>(`GET /v1/sessions/${id}/events`)).json.events.slice(0, 4);
  }
  await using storage = await open();
  await using server = await TestServer.start({ dataDir, storage });
  expect((await server.call(`GET /v1/sessions/${id}`, { token })).json).toMatchObject({ id, state: 'hibernated' });
  const run = await server.call(`POST /v1/sessions/${id}/execute`, { token, body: { code: 'x + 1' } });
  expect(run.json).toMatchObject({ value: 42 });
  const { events } = (await server.call<{ events: { seq: number }[] }>(`GET /v1/sessions/${id}/events`)).json;
  expect(events.slice(0, 4)).toEqual(before);
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
});
