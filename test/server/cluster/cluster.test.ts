/**
 * Three servers on one Redis: each answers for every session, one has it, and another goes on with it when that one ends.
 * What is done to the servers comes last, and leaves one of them.
 */

import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { request } from 'node:http';
import { beforeAll, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { isExecutionEnd, type SessionEvent } from '../../../src/protocol/session-events.ts';
import type { SessionInfo } from '../../../src/protocol/session-info.ts';
import { Cluster, type Server } from '../../support/servers/cluster.ts';
import { ndjson } from '../../support/servers/streams.ts';
import { until, upTo } from '../sessions/session-managers.ts';

let cluster: Cluster;
let [a, b, c] = [] as unknown as [Server, Server, Server];
beforeAll(async () => {
  cluster = await Cluster.start();
  [a, b, c] = await Promise.all([cluster.server(), cluster.server(), cluster.server()]);
});

/** Gapless, and every execution that began has ended once, with nothing of it after that. */
function expectWhole(events: readonly SessionEvent[]): void {
  expect(events.map(({ seq }) => seq)).toEqual(upTo(events.length));
  const open = new Set<string>();
  for (const event of events) {
    if (event.type === 'execution_started') open.add(event.execution);
    else if (isExecutionEnd(event)) expect(open.delete(event.execution), `${event.type} ${event.seq}`).toBe(true);
    else if ('execution' in event && event.execution && !('background' in event)) {
      expect(open.has(event.execution), `${event.type} ${event.seq}`).toBe(true);
    }
  }
  expect([...open]).toEqual([]);
}

function endingsOf(events: readonly SessionEvent[]): Map<string, SessionEvent> {
  return new Map(events.flatMap((event) => (isExecutionEnd(event) ? [[event.execution, event]] : [])));
}

/** Until what the session has is in storage. */
async function saved(server: Server, id: string): Promise<void> {
  await until(
    () => server.events(id),
    (events) => events.findLastIndex(({ type }) => type === 'saved') > events.findLastIndex(isExecutionEnd),
  );
}

/** What a server does with its kernels is told to the others soon. */
async function listed(server: Server, id: string, state: SessionInfo['state']): Promise<void> {
  const look = async () => (await server.call<{ sessions: SessionInfo[] }>('GET /v1/sessions')).json.sessions;
  await until(look, (sessions) => sessions.find((one) => one.id === id)?.state === state);
}

/** A client that asks again with the same key, wherever somebody answers, until it knows what became of its code. */
async function insist(id: string, code: string, key: string, servers: readonly Server[]) {
  return await until(
    async () => {
      for (const server of servers) {
        const headers = { 'idempotency-key': key };
        const answer = await server
          .call(`POST /v1/sessions/${id}/execute`, { body: { code }, headers })
          .catch(() => undefined);
        if (answer?.status === 200) return answer.json;
        const { code: why = '' } = (answer?.json.error ?? {}) as { code?: string };
        if (why === 'EXECUTION_LOST' || why === 'STORAGE_FAILED') return { lost: why };
      }
      return undefined;
    },
    (outcome) => outcome !== undefined,
  );
}

interface Acknowledged {
  readonly execution: unknown;
  readonly value: unknown;
}

/** Runs one cell after the other until it is told to stop; gives all that were acknowledged. */
function load(id: string, mark: string, servers: readonly Server[]) {
  const acknowledged: Acknowledged[] = [];
  let going = true;
  const over = (async () => {
    for (let round = 0; going; round++) {
      const key = `${mark}-${round}`;
      const outcome = await insist(id, `for n in range(3): print(n, flush=True)\n'${key}'`, key, servers);
      if (outcome && !('lost' in outcome)) acknowledged.push({ execution: outcome.execution, value: outcome.value });
    }
  })();
  const reached = (count: number) =>
    until(
      async () => acknowledged.length,
      (now) => now >= count,
    );
  const stop = () => {
    going = false;
    return over;
  };
  return { acknowledged, reached, stop };
}

/** Reads along by number, however often it is cut off. */
function follow(id: string, server: Server) {
  const seen: SessionEvent[] = [];
  const gone = new AbortController();
  const over = (async () => {
    while (!gone.signal.aborted) {
      const path = `GET /v1/sessions/${id}/events?after=${seen.at(-1)?.seq ?? 0}`;
      const headers = { accept: 'application/x-ndjson' };
      await server
        .fetch(path, { headers, signal: gone.signal })
        .then(async (response) => {
          if (response.ok) await ndjson<SessionEvent>(response, async (one) => 'seq' in one && seen.push(one));
        })
        .catch(() => {}); // cut off
    }
  })();
  const stop = async (last: number) => {
    await until(
      async () => seen.at(-1)?.seq ?? 0,
      (now) => now >= last,
    );
    gone.abort();
    await over;
    return seen;
  };
  return { stop };
}

test('every server serves a session that one of them has: JSON, streams, files, changes, deletion', async () => {
  const id = await a.session();
  await a.run(id, 'x = 41');
  expect(await b.run(id, 'x + 1')).toMatchObject({ status: 'ok', value: 42 });
  const body = { code: 'for n in range(3): print(n, flush=True)\nx' };
  const streamed = await c.fetch(`POST /v1/sessions/${id}/execute`, {
    body,
    headers: { accept: 'application/x-ndjson' },
  });
  const events = await ndjson<SessionEvent>(streamed);
  expect(events.at(-1)).toMatchObject({ type: 'result', value: 41 });
  const { execution } = Object(events.at(-1));
  // Saves may come between them.
  expect(events).toEqual((await a.events(id)).filter((one) => 'execution' in one && one.execution === execution));
  const bytes = randomBytes(3_000_000);
  const written = await fetch(new URL(`/v1/sessions/${id}/files/content?path=big`, b.url), {
    method: 'PUT',
    headers: { authorization: `Bearer ${b.facts.token}`, 'content-type': 'application/octet-stream' },
    body: bytes,
  });
  expect(written.ok).toBe(true);
  const read = await c.fetch(`GET /v1/sessions/${id}/files/content?path=big`);
  expect(Buffer.compare(Buffer.from(await read.arrayBuffer()), bytes)).toBe(0);
  expect((await c.call(`PATCH /v1/sessions/${id}`, { body: { labels: { by: 'c' } } })).json).toMatchObject({
    state: 'idle',
  });
  expect((await a.call<SessionInfo>(`GET /v1/sessions/${id}`)).json.labels).toEqual({ by: 'c' });
  expect((await b.call(`POST /v1/sessions/${id}/execute`, { body: { cod: 1 } })).json.error).toMatchObject({
    code: 'INVALID_REQUEST',
  });
  const large = await b.call(`POST /v1/sessions/${id}/execute`, { body: { code: '#'.repeat(9_000_000) } });
  expect(large.json.error).toMatchObject({ code: 'TOO_LARGE' });
  const leaving = new AbortController();
  const endless = { code: "import time\nwhile True: print('x', flush=True); time.sleep(0.01)", stopWhenGone: true };
  const accept = { accept: 'text/event-stream' };
  const left = await c.fetch(`POST /v1/sessions/${id}/execute`, {
    body: endless,
    headers: accept,
    signal: leaving.signal,
  });
  await left.body?.getReader().read();
  leaving.abort();
  await until(
    () => a.events(id),
    (all) => all.some((event) => event.type === 'result' && event.status === 'interrupted'),
  );
  const audit = await b.call<{ entries: { action: string; from: string }[] }>(`GET /v1/audit?session=${id}&limit=1000`);
  const updates = audit.json.entries.filter(({ action }) => action === 'session.update');
  expect(updates.map(({ from }) => from)).toEqual(['127.0.0.1']);
  await listed(c, id, 'idle');
  expect((await b.call(`DELETE /v1/sessions/${id}`)).status).toBe(204);
  for (const server of [a, b, c]) expect((await server.call(`GET /v1/sessions/${id}`)).status).toBe(404);
});

test('a WebSocket at any server works like one at the owner, including the close reason', async () => {
  const id = await a.session();
  const socket = new WebSocket(`${b.url.replace('http', 'ws')}/v1/sessions/${id}/ws`, {
    headers: { authorization: `Bearer ${b.facts.token}` },
  });
  const frames: Record<string, unknown>[] = [];
  socket.on('message', (data) => frames.push(JSON.parse(String(data))));
  const has = (type: string) =>
    until(
      async () => frames.find((frame) => frame.type === type),
      (one) => one !== undefined,
    );
  const closed = new Promise<number>((resolve) => socket.once('close', resolve));
  expect(await has('hello')).toMatchObject({ session: id });
  socket.send(JSON.stringify({ type: 'execute', id: 1, code: "print(input('name? '))" }));
  const asked = await has('input_request');
  socket.send(JSON.stringify({ type: 'input', id: 2, request: asked?.id, text: 'Ada' }));
  expect(await has('result')).toMatchObject({ status: 'ok' });
  expect(frames.find(({ type }) => type === 'stdout')).toMatchObject({ text: 'Ada\n' });
  const ponged = new Promise((resolve) => socket.once('pong', resolve));
  socket.ping('hello');
  expect(String(await ponged)).toBe('hello');
  await c.call(`DELETE /v1/sessions/${id}`);
  expect(await closed).toBe(4404);
  const refused = new WebSocket(`${b.url.replace('http', 'ws')}/v1/sessions/${id}/ws`);
  const status = await new Promise((resolve) => {
    refused.once('unexpected-response', (_request, { statusCode }) => resolve(statusCode));
    refused.on('error', () => {}); // it was refused
  });
  expect(status).toBe(401);
});

test('one Idempotency-Key runs once, whichever servers get it at the same time', async () => {
  const id = await a.session();
  await a.run(id, 'n = 0');
  const code = 'import time; time.sleep(0.05); n += 1; n';
  const outcomes = await Promise.all(
    [a, b, c, a, b, c].map((server) => server.run(id, code, { 'idempotency-key': 'k' })),
  );
  expect(new Set(outcomes.map(({ execution }) => execution)).size).toBe(1);
  expect(outcomes.map(({ value }) => value)).toEqual(Array(6).fill(1));
});

test('both servers check access: no token, another user’s session, and forged headers', async () => {
  const id = await a.session();
  const none = { authorization: '' };
  expect((await b.call(`GET /v1/sessions/${id}`, { headers: { authorization: 'Bearer x' } })).status).toBe(401);
  expect((await b.call(`GET /v1/sessions/${id}`, { headers: none })).status).toBe(401);
  await c.call('POST /v1/users', { body: { name: 'mia', role: 'member', quotas: { liveKernels: 1 } } });
  const { token } = (await c.call('POST /v1/tokens', { body: { name: 't', user: 'mia' } })).json;
  const mia = { authorization: `Bearer ${token}` };
  expect((await b.call(`GET /v1/sessions/${id}/events`, { headers: mia })).status).toBe(404);
  const payload = Buffer.from(JSON.stringify({ from: a.facts.id, client: '6.6.6.6' })).toString('base64url');
  const forged = { 'x-cella-hop': `${payload}.${'A'.repeat(43)}` };
  for (const server of [a, b]) {
    expect((await server.call(`PATCH /v1/sessions/${id}`, { body: { name: 'n' }, headers: forged })).status).toBe(200);
    expect((await server.call(`GET /v1/sessions/${id}`, { headers: { ...forged, ...none } })).status).toBe(401);
  }
  const { entries } = (await c.call<{ entries: { from: string }[] }>(`GET /v1/audit?session=${id}&limit=1000`)).json;
  expect(new Set(entries.map(({ from }) => from))).toEqual(new Set(['127.0.0.1']));
  // Whoever may open the socket of a server is the admin, also where another one answers.
  const answer = await new Promise<string>((resolve, reject) => {
    const options = { socketPath: b.facts.socketPath, path: `/v1/sessions/${id}`, headers: { host: 'localhost' } };
    const sent = request(options, async (response) => resolve(String(Buffer.concat(await response.toArray()))));
    sent.on('error', reject).end();
  });
  expect(JSON.parse(answer)).toMatchObject({ id });
  // Kernels are counted over all servers.
  const ids = await Promise.all(
    [a, b].map(async (server, index) => {
      const body = { agentKey: `mia ${index}` };
      return (await server.call<SessionInfo>('POST /v1/sessions', { body, headers: mia })).json.id;
    }),
  );
  const run = (server: Server, session = '') =>
    server.call(`POST /v1/sessions/${session}/execute`, { body: { code: '1' }, headers: mia });
  expect((await run(a, ids[0])).status).toBe(200);
  await listed(b, ids[0] ?? '', 'idle');
  expect((await run(b, ids[1])).json.error).toMatchObject({ code: 'QUOTA_EXCEEDED' });
});

test('a Redis that restarts under load loses nothing acknowledged, and all servers continue', async () => {
  const [one, two] = await Promise.all([a.session(), b.session()]);
  await Promise.all([a.run(one, 'x = 1'), b.run(two, 'x = 2')]);
  const loads = [load(one, 'r1', [b, a]), load(two, 'r2', [c, b])];
  await Promise.all(loads.map(({ reached }) => reached(3)));
  await cluster.redis.restart();
  await Promise.all(loads.map(({ reached, acknowledged }) => reached(acknowledged.length + 3)));
  await Promise.all(loads.map(({ stop }) => stop()));
  expect(await c.run(one, 'x')).toMatchObject({ value: 1 });
  expect(await c.run(two, 'x')).toMatchObject({ value: 2 });
  for (const [index, id] of [one, two].entries()) {
    const events = await c.events(id);
    expectWhole(events);
    const endings = endingsOf(events);
    for (const { execution, value } of loads[index]?.acknowledged ?? []) {
      expect(endings.get(String(execution))).toMatchObject({ type: 'result', value });
    }
  }
});

/** The processes that code has given this name. */
function called(name: string): number[] {
  const pids = readdirSync('/proc').filter((entry) => /^\d+$/.test(entry));
  return pids.map(Number).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === name;
    } catch {
      return false; // it has ended
    }
  });
}

test('a server that hung for longer than its lease writes nothing more, ends its kernels and notifies its clients', async () => {
  const id = await c.session();
  await c.run(id, "x = 5\nimport ctypes; ctypes.CDLL(None).prctl(15, b'cella-stood')");
  await saved(c, id);
  const headers = { accept: 'application/x-ndjson' };
  const body = { code: "import time\nwhile True: print('tick', flush=True); time.sleep(0.005)" };
  const lines: Record<string, unknown>[] = [];
  const begun = Promise.withResolvers<void>();
  const told = ndjson<Record<string, unknown>>(
    await c.fetch(`POST /v1/sessions/${id}/execute`, { body, headers }),
    async (line) => {
      lines.push(line);
      if (line.type === 'stdout') begun.resolve();
    },
  );
  await begun.promise;
  expect(called('cella-stood').length).toBeGreaterThan(0);
  c.signal('SIGSTOP');
  // Whoever waits for the one that stands still waits no longer than for its lease.
  const first = await a.call(`POST /v1/sessions/${id}/execute`, { body: { code: '1' } });
  expect([first.status, Number(first.headers.get('retry-after'))]).toEqual([503, 1]);
  expect(first.json.error).toMatchObject({ code: 'SESSION_ELSEWHERE' });
  const taken = await until(
    () => a.run(id, 'x').catch(() => ({})),
    (answer) => 'value' in answer,
  );
  expect(taken).toMatchObject({ value: 5 });
  const before = await b.events(id);
  c.signal('SIGCONT');
  await told;
  expect(lines.at(-1)).toMatchObject({ type: 'error', error: { code: 'SESSION_ELSEWHERE' } });
  await until(
    async () => called('cella-stood'),
    (left) => left.length === 0,
  );
  expect(await c.run(id, 'x')).toMatchObject({ value: 5 });
  const events = await b.events(id);
  expectWhole(events);
  expect(events.slice(0, before.length)).toEqual(before);
  const { execution } = lines[0] ?? {};
  const ending = events.findIndex((event) => isExecutionEnd(event) && event.execution === execution);
  expect(events[ending]).toMatchObject({ type: 'interrupted' });
  expect(events.slice(ending + 1).some((event) => 'execution' in event && event.execution === execution)).toBe(false);
});

test('a killed server’s sessions continue on another, from the last save: nothing acknowledged is lost or repeated', async () => {
  const id = await c.session();
  await c.run(id, 'x = 1');
  await saved(c, id);
  const follower = follow(id, a);
  // Both keep asking, so that two servers want it at once when it is free.
  const loads = [load(id, 'one', [a, b]), load(id, 'two', [b, a])];
  await Promise.all(loads.map(({ reached }) => reached(3)));
  const holding = { code: "import time\nprint('holding', flush=True)\ntime.sleep(600)" };
  void b.call(`POST /v1/sessions/${id}/execute`, { body: holding }).catch(() => {}); // its server is killed
  await until(
    () => a.events(id),
    (events) => events.some((event) => event.type === 'stdout' && event.text === 'holding\n'),
  );
  await c.kill();
  await Promise.all(loads.map(({ reached, acknowledged }) => reached(acknowledged.length + 3)));
  await Promise.all(loads.map(({ stop }) => stop()));
  expect(await a.run(id, 'x')).toMatchObject({ value: 1 });
  const events = await b.events(id);
  expectWhole(events);
  expect(events.filter(({ type }) => type === 'interrupted').length).toBeGreaterThan(0);
  const endings = endingsOf(events);
  for (const { execution, value } of loads.flatMap(({ acknowledged }) => acknowledged)) {
    expect(endings.get(String(execution))).toMatchObject({ type: 'result', status: 'ok', value });
  }
  const values = events.flatMap((event) =>
    event.type === 'result' && typeof event.value === 'string' ? [event.value] : [],
  );
  expect(new Set(values).size).toBe(values.length);
  const seen = await follower.stop(events.length);
  expect(seen.map(({ seq }) => seq)).toEqual(upTo(seen.length));
  expect(seen.slice(0, events.length)).toEqual(events);
});

test('a server that shuts down cleanly hands its sessions over at once, with all their data', async () => {
  const id = await b.session();
  await b.run(id, 'x = 7');
  const follower = follow(id, a);
  await b.stop();
  expect(await a.run(id, 'x')).toMatchObject({ status: 'ok', value: 7 });
  const events = await a.events(id);
  expectWhole(events);
  expect(events.filter(({ type }) => type === 'interrupted')).toEqual([]);
  expect((await follower.stop(events.length)).slice(0, events.length)).toEqual(events);
});
