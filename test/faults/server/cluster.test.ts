/** Servers that share a Redis, while one of them stands still or all of them have lost it for longer than their leases. */

import { setTimeout as delay } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { until } from '../../server/sessions/session-managers.ts';
import { checkEndings } from '../../soak/log.ts';
import { Cluster, LEASE_MS, type Server } from '../../support/servers/cluster.ts';

// All at once, each with servers of its own: that takes long on a busy machine.
vi.setConfig({ testTimeout: 180_000 });

/** A cell that says nothing, and the answer of its caller. */
async function silent(server: Server, id: string, key: string) {
  const answer = server.call<{ error?: { code?: string }; status?: string }>(`POST /v1/sessions/${id}/execute`, {
    body: { code: 'import time\nwhile True: time.sleep(0.01)' },
    headers: { 'idempotency-key': key },
  });
  answer.catch(() => {}); // the test looks at it
  await until(
    () => server.events(id),
    (events) => events.filter(({ type }) => type === 'execution_started').length > 1,
  );
  return { answer };
}

async function saved(server: Server, id: string): Promise<void> {
  expect((await server.call(`POST /v1/sessions/${id}/save`)).status).toBe(204);
}

/** The value of an expression, as soon as a server can tell it. */
async function valueAt(server: Server, id: string, code: string): Promise<unknown> {
  const answer = await until(
    () => server.run(id, code).catch(() => ({})),
    (one) => 'value' in one,
  );
  return Object(answer).value;
}

test.concurrent('an owner that hung past its lease tells the caller of a silent cell which server has the session', async () => {
  const cluster = await Cluster.start();
  const [a, b] = await Promise.all([cluster.server(), cluster.server()]);
  const id = await a.session();
  await a.run(id, 'x = 5');
  await saved(a, id);
  const { answer } = await silent(a, id, 'once');
  a.signal('SIGSTOP');
  expect(await valueAt(b, id, 'x')).toBe(5);
  const before = await b.events(id);
  a.signal('SIGCONT');
  const told = await answer;
  expect([told.status, told.json.error?.code]).toEqual([503, 'SESSION_ELSEWHERE']);
  // What became of the code is known by its key.
  const again = await b.call<{ error?: { code?: string } }>(`POST /v1/sessions/${id}/execute`, {
    body: { code: 'import time\nwhile True: time.sleep(0.01)' },
    headers: { 'idempotency-key': 'once' },
  });
  expect(again.json.error?.code).toBe('EXECUTION_LOST');
  const events = await b.events(id);
  expect(events.slice(0, before.length)).toEqual(before);
  checkEndings(id, events);
});

test.concurrent('an owner that hung, and whose session nobody requested, continues its running code', async () => {
  const cluster = await Cluster.start();
  const a = await cluster.server();
  const id = await a.session();
  await a.run(id, 'x = 5');
  const { answer } = await silent(a, id, 'once');
  a.signal('SIGSTOP');
  await delay(LEASE_MS * 1.5); // by the clock of Redis
  a.signal('SIGCONT');
  await until(
    () => a.call(`POST /v1/sessions/${id}/interrupt`),
    ({ status }) => status === 200,
  );
  expect((await answer).json).toMatchObject({ status: 'interrupted' });
  expect(await a.run(id, 'x')).toMatchObject({ value: 5 });
  checkEndings(id, await a.events(id));
});

test.concurrent('servers whose Redis was unreachable for longer than their leases continue, with everything acknowledged', async () => {
  const cluster = await Cluster.start();
  const [a, b] = await Promise.all([cluster.server(), cluster.server()]);
  const ids = [await a.session(), await b.session()] as const;
  const acknowledged: [id: string, execution: unknown][] = [];
  for (const [server, id] of [
    [a, ids[0]],
    [b, ids[1]],
  ] as const) {
    for (let n = 0; n < 5; n++) acknowledged.push([id, (await server.run(id, `x = ${n}`)).execution]);
    await saved(server, id);
  }
  await cluster.redis.stop();
  const refused = await a.call<{ error: { code: string } }>(`POST /v1/sessions/${ids[0]}/execute`, {
    body: { code: 'x = 9' },
  });
  expect([refused.status, refused.json.error.code]).toEqual([503, 'STORAGE_UNREACHABLE']);
  await delay(LEASE_MS * 1.5);
  await cluster.redis.restart();
  // Each asks for the other's too.
  for (const id of ids) {
    for (const server of [a, b]) expect(await valueAt(server, id, 'x')).toBe(4);
    const endings = checkEndings(id, await a.events(id));
    for (const [of, execution] of acknowledged) if (of === id) expect(endings.has(String(execution))).toBe(true);
  }
});
