/** The pool of runners as an operator sees it: how many live, who waits, which are replaced; and what is left of them. On Redis. */

import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createClient } from '@redis/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PROTOCOL_VERSION } from '../../../src/protocol/runner-methods.ts';
import { RedisStorage } from '../../../src/storage/redis/redis-storage.ts';
import { descendants } from '../../support/processes/processes.ts';
import {
  agentServer,
  eventsOf,
  hostileRunner,
  namedPrograms,
  prompt,
  setKey,
  until,
} from '../../support/servers/agent-server.ts';
import { RedisServer } from '../../support/servers/redis.ts';
import type { TestServer } from '../../support/servers/server.ts';

/** Runners end and begin in their own time, however busy the machine is. */
const patient = { timeout: 30_000 };
const KEY_OF_A_USER = 'sk-ant-of-somebody-who-goes';
let redis: RedisServer;
let storage: RedisStorage;
let server: TestServer;
let runner: string;

beforeAll(async () => {
  redis = await RedisServer.start();
  storage = await RedisStorage.open(redis.url, { prefix: 'workers' });
  runner = await hostileRunner();
  server = await agentServer({
    storage,
    runner,
    modelUrl: 'http://127.0.0.1:9',
    programs: await namedPrograms(),
    agents: {
      runners: { maxRunners: 1, stopMs: 5000, idleMs: 500, graceMs: 500, pingEveryMs: 100, pingMs: 4000 },
    },
  });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await storage[Symbol.asyncDispose]();
  await redis[Symbol.asyncDispose]();
});

async function metric(name: string): Promise<number> {
  const { text } = await server.call('GET /metrics');
  const line = text.split('\n').find((one) => one.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1));
}

const started = () => metric('cella_runners_started_total');
const runners = () => descendants(process.pid).filter(({ command }) => command.includes('cella-runner.mjs serve'));

/** All that a storage holds, as text; what was done is told in the audit log for ever. */
async function everything(): Promise<string> {
  const client = createClient({ url: redis.url });
  await client.connect();
  try {
    const keys = (await client.keys('*')).filter((key) => !key.includes('audit'));
    const values = keys.map(async (key) => {
      const type = await client.type(key);
      if (type === 'hash') return JSON.stringify(await client.hGetAll(key));
      if (type === 'string') return (await client.get(key)) ?? '';
      if (type === 'stream') return JSON.stringify(await client.xRange(key, '-', '+'));
      if (type === 'zset') return JSON.stringify(await client.zRange(key, 0, -1));
      if (type === 'set') return JSON.stringify(await client.sMembers(key));
      return type === 'list' ? JSON.stringify(await client.lRange(key, 0, -1)) : '';
    });
    return [...keys, ...(await Promise.all(values))].join('\n');
  } finally {
    client.destroy();
  }
}

test('a prompt over the limit waits until a runner is free, and metrics show it', async () => {
  const [one, other] = await Promise.all([server.session({ agentKey: 'one' }), server.session({ agentKey: 'other' })]);
  const first = prompt(server, one.id, 'hang');
  await until(server, one.id, ({ type }) => type === 'agent_session');
  const second = prompt(server, other.id, 'plain');
  await expect.poll(() => metric('cella_runners_waiting'), patient).toBe(1);
  expect(await Promise.all(['live', 'busy', 'starting'].map((name) => metric(`cella_runners_${name}`)))).toEqual([
    1, 1, 0,
  ]);
  await server.call(`POST /v1/sessions/${one.id}/stop`);
  expect((await first).json.status).toBe('cancelled');
  expect((await second).json.status).toBe('completed');
  expect(await metric('cella_turns_total{status="completed"}')).toBe(1);
  expect(await metric('cella_turns_total{status="cancelled"}')).toBe(1);
});

test('a turn can be stopped while it waits for a runner or the runner starts, and leaves nothing behind', async () => {
  const [one, other] = await Promise.all([server.session({ agentKey: 'has' }), server.session({ agentKey: 'waits' })]);
  const first = prompt(server, one.id, 'hang');
  await until(server, one.id, ({ type }) => type === 'agent_session');
  const second = prompt(server, other.id, 'plain');
  await expect.poll(() => metric('cella_runners_waiting'), patient).toBe(1);
  await server.call(`POST /v1/sessions/${other.id}/stop`);
  expect((await second).json.status).toBe('cancelled');
  expect([await metric('cella_runners_waiting'), await metric('cella_runners_busy')]).toEqual([0, 1]);
  await server.call(`POST /v1/sessions/${one.id}/stop`);
  expect((await first).json.status).toBe('cancelled');
  // This one has no runner yet when it is told that its turn has come.
  const third = prompt(server, other.id, 'hang');
  await until(server, other.id, ({ type, ...event }) => type === 'turn_started' && Object(event).prompt === 'hang');
  await server.call(`POST /v1/sessions/${other.id}/stop`);
  expect((await third).json.status).toBe('cancelled');
  const numbers = () =>
    Promise.all(['starting', 'busy', 'waiting', 'live'].map((name) => metric(`cella_runners_${name}`)));
  await expect.poll(numbers, patient).toEqual([0, 0, 0, 0]);
  const ended = (await eventsOf(server, other.id)).filter(({ type }) => type === 'turn_ended');
  expect(ended).toMatchObject([{ status: 'cancelled' }, { status: 'cancelled' }]);
});

test('an idle runner is ended, and the next turn has another', async () => {
  const { id } = await server.session({ agentKey: 'idle' });
  await prompt(server, id, 'plain');
  const before = await started();
  await expect.poll(runners, patient).toEqual([]);
  await expect.poll(() => metric('cella_runners_live'), patient).toBe(0);
  expect((await prompt(server, id, 'plain')).json.status).toBe('completed');
  expect(await started()).toBeGreaterThan(before);
});

test('a runner that was started in advance is ended if no prompt comes', async () => {
  const { id } = await server.session({ agentKey: 'ahead' });
  await expect.poll(() => metric('cella_runners_live'), patient).toBe(0);
  const before = await started();
  expect((await server.call(`POST /v1/sessions/${id}/agents/claude/warm`)).json).toEqual({ warm: true });
  await expect.poll(started, patient).toBe(before + 1);
  await expect.poll(() => metric('cella_runners_live'), patient).toBe(0);
});

test('a runner that does not answer is ended and replaced before the next turn, which says why', async () => {
  const { id } = await server.session({ agentKey: 'stopped' });
  const hanging = prompt(server, id, 'hang');
  await until(server, id, ({ type }) => type === 'agent_session');
  const [failures, before] = await Promise.all([metric('cella_runner_failures_total'), started()]);
  const held = runners();
  for (const { pid } of held) process.kill(pid, 'SIGSTOP');
  expect((await hanging).json).toMatchObject({
    status: 'failed',
    error: { code: 'RUNNER_FAILED', message: expect.stringContaining('no longer answers') },
  });
  expect(await metric('cella_runner_failures_total')).toBe(failures + 1);
  await expect.poll(started, patient).toBe(before + 1);
  const pids = new Set(held.map(({ pid }) => pid));
  expect(runners().filter(({ pid }) => pids.has(pid))).toEqual([]);
  expect((await prompt(server, id, 'plain')).json.status).toBe('completed');
  expect((await eventsOf(server, id)).filter(({ type }) => type === 'agent_notice')).toMatchObject([
    { text: expect.stringContaining('no longer answers') },
  ]);
});

test('a turn of a disabled user ends, whatever it waits for', async () => {
  const token = await server.user('leaver', 'member');
  await setKey(server, KEY_OF_A_USER, token);
  const { id } = await server.session({ agentKey: 'leaves' }, token);
  const hanging = prompt(server, id, 'hang', { token });
  await until(server, id, ({ type }) => type === 'agent_session');
  await server.call('PATCH /v1/users/leaver', { body: { disabled: true } });
  const events = await until(server, id, ({ type }) => type === 'turn_ended');
  expect(events.at(-1)).toMatchObject({ status: 'failed', error: { code: 'UNAUTHENTICATED' } });
  await hanging;
});

test('a runner with another protocol version runs no turn and is ended, and the next one works', async () => {
  const { id } = await server.session({ agentKey: 'version' });
  const file = join(runner, 'version');
  await writeFile(file, String(PROTOCOL_VERSION + 1));
  const { json } = await prompt(server, id, 'plain');
  const message = expect.stringContaining(`speaks version ${PROTOCOL_VERSION + 1} of the protocol`);
  expect(json).toMatchObject({ status: 'failed', error: { code: 'RUNNER_PROTOCOL', message } });
  expect((await eventsOf(server, id)).filter(({ type }) => type === 'agent_session')).toEqual([]);
  await expect.poll(runners, patient).toEqual([]);
  await rm(file);
  expect((await prompt(server, id, 'plain')).json.status).toBe('completed');
});

test('a deleted session leaves no turns, tokens, permissions and usage', async () => {
  const { id } = await server.session({ agentKey: 'deleted' });
  const turn = prompt(server, id, 'permit ls');
  const asked = (await until(server, id, ({ type }) => type === 'permission_requested')).at(-1);
  if (asked?.type !== 'permission_requested') throw new Error('no permission was requested');
  const body = { decision: 'allow', scope: 'session' };
  await server.call(`POST /v1/sessions/${id}/permissions/${asked.id}`, { body });
  expect((await turn).json.status).toBe('completed');
  await storage.documents.put('model-usage', `session/${id}`, {});
  expect(await everything()).toContain(id);
  expect((await server.call(`DELETE /v1/sessions/${id}`)).status).toBe(204);
  const left = (await everything()).split('\n').filter((line) => line.includes(id));
  expect(left).toEqual([]);
});

test('a deleted user leaves no credential, rule, profile or usage', async () => {
  const token = await server.user('goes', 'member');
  await setKey(server, KEY_OF_A_USER, token);
  const rule = { tool: 'Bash', pattern: 'ls *' };
  expect((await server.call('POST /v1/permission-rules', { body: rule, token })).status).toBeLessThan(300);
  await server.call('PUT /v1/profiles/mine', { body: { systemPrompt: 'Be short.' }, token });
  const { json } = await server.call<{ userId: string }>('GET /v1/me', { token });
  expect(await everything()).toContain(`${json.userId}/anthropic`);
  expect((await server.call('DELETE /v1/users/goes')).status).toBe(204);
  expect((await everything()).split('\n').filter((line) => line.includes(json.userId))).toEqual([]);
});

test('a runner that does not return its conversation does not prevent the end of a turn', async () => {
  const { id } = await server.session({ agentKey: 'mute' });
  expect((await prompt(server, id, 'tell nothing')).json).toMatchObject({
    status: 'completed',
    conversation: `talk-${id}`,
  });
  expect((await server.call(`GET /v1/sessions/${id}/transcript`)).status).toBe(404);
});
