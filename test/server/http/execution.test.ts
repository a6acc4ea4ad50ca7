/** Running code through the server: results, streams, retries, resumption, and clients that go away. */

import { beforeAll, describe, expect, it } from 'vitest';
import { type Answer, TestServer } from '../../support/servers/server.ts';
import { ndjson, sse } from '../../support/servers/streams.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});

type Numbered = { seq: number; type: string; text?: string; execution?: string; id?: number };
const events = async (id: string, after = 0): Promise<Numbered[]> =>
  (await server.call<{ events: Numbered[] }>(`GET /v1/sessions/${id}/events?after=${after}`)).json.events;
const codeOf = ({ json }: Answer): unknown => (json.error as { code?: string } | undefined)?.code;

describe('execute', () => {
  it('responds with one JSON result, and keeps the variables', async () => {
    const { id } = await server.session({ agentKey: 'json' });
    expect(await server.run(id, 'print("a"); x = 41')).toMatchObject({ status: 'ok', stdout: 'a\n', replayed: false });
    expect(await server.run(id, 'x + 1')).toMatchObject({ status: 'ok', value: 42, repr: '42', number: 2 });
    expect(await server.run(id, '2**64')).toMatchObject({ value: { $int: '18446744073709551616' } });
    expect(await server.run(id, '1/0')).toMatchObject({ status: 'error', error: { name: 'ZeroDivisionError' } });
  });

  it('has the environment of its session, and none of the server', async () => {
    const { id } = await server.session({ agentKey: 'env', env: { GIVEN: 'a "quoted" word', EMPTY: '' } });
    process.env.CELLA_TEST_OF_THE_SERVER = 'x';
    const names = '("GIVEN", "EMPTY", "CELLA_TEST_OF_THE_SERVER")';
    const { value } = await server.run(id, `import os; [os.environ.get(name) for name in ${names}]`);
    delete process.env.CELLA_TEST_OF_THE_SERVER;
    expect(value).toEqual(['a "quoted" word', '', null]);
  });

  it('streams the same events as lines of JSON and as server-sent events', async () => {
    const { id } = await server.session({ agentKey: 'streams' });
    const path = `POST /v1/sessions/${id}/execute`;
    const lines = await ndjson<Numbered>(
      await server.fetch(path, { body: { code: 'print(1)' }, headers: { accept: 'application/x-ndjson' } }),
    );
    expect(lines.map(({ type }) => type)).toEqual(['execution_started', 'stdout', 'result']);
    const response = await server.fetch(path, { body: { code: 'print(1)' }, headers: { accept: 'text/event-stream' } });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const parts = await sse(response);
    expect(parts.map(({ data }) => data.type)).toEqual(['execution_started', 'stdout', 'result']);
    for (const { id: named, data } of parts) expect(named).toBe(String(data.seq));
  });

  it('sends the first output while the code still runs', async () => {
    const { id } = await server.session({ agentKey: 'live' });
    const response = await server.fetch(`POST /v1/sessions/${id}/execute`, {
      body: { code: 'print("go"); input()' },
      headers: { accept: 'application/x-ndjson' },
    });
    const seen: string[] = [];
    await ndjson<Numbered>(response, async (event) => {
      seen.push(event.type);
      if (event.type !== 'input_request') return;
      const body = { request: event.id, text: 'answer' };
      expect(await server.call(`POST /v1/sessions/${id}/input`, { body })).toMatchObject({ status: 204 });
      const second = await server.call(`POST /v1/sessions/${id}/input`, { body });
      expect(codeOf(second)).toBe('INPUT_NOT_PENDING');
    });
    expect(seen).toContain('stdout');
    expect(seen.at(-1)).toBe('result');
  });

  it('runs once for one Idempotency-Key, however often and concurrently it is sent', async () => {
    const { id } = await server.session({ agentKey: 'once' });
    await server.run(id, 'n = 0');
    const ask = (code = 'n += 1; n') =>
      server.call(`POST /v1/sessions/${id}/execute`, { body: { code }, headers: { 'idempotency-key': 'k1' } });
    const all = await Promise.all([ask(), ask(), ask()]);
    const again = await ask();
    expect(new Set([...all, again].map(({ json }) => json.execution)).size).toBe(1);
    expect([...all, again].map(({ json }) => json.value)).toEqual([1, 1, 1, 1]);
    expect(await server.run(id, 'n')).toMatchObject({ value: 1 });
    expect(codeOf(await ask('n'))).toBe('IDEMPOTENCY_CONFLICT');
    const bad = { body: { code: '1' }, headers: { 'idempotency-key': 'x'.repeat(300) } };
    expect(await server.call(`POST /v1/sessions/${id}/execute`, bad)).toMatchObject({ status: 400 });
  });

  it('continues when the client disconnects, and stops if the client requested that', async () => {
    const { id } = await server.session({ agentKey: 'gone' });
    const leave = async (more: Record<string, unknown>, accept: string) => {
      const leaving = new AbortController();
      const rest = more.stopWhenGone ? 'while True: time.sleep(0.05)' : 'time.sleep(0.5)\nprint("end")';
      const code = `import time\nprint("go", flush=True)\n${rest}`;
      const path = `POST /v1/sessions/${id}/execute`;
      const last = (await events(id)).at(-1)?.seq ?? 0;
      const asked = server
        .fetch(path, { body: { code, ...more }, headers: { accept }, signal: leaving.signal })
        .catch(() => undefined);
      const feed = await server.fetch(`GET /v1/sessions/${id}/events?after=${last}`, {
        headers: { accept: 'application/x-ndjson' },
      });
      let ending: Record<string, unknown> = {};
      await ndjson<Numbered>(feed, async (event) => {
        if (event.text?.includes('go')) leaving.abort();
        if (event.type !== 'result') return true;
        ending = event as unknown as Record<string, unknown>;
        return false;
      });
      await asked;
      return ending;
    };
    expect(await leave({}, 'application/json')).toMatchObject({ status: 'ok' });
    expect(await leave({}, 'application/x-ndjson')).toMatchObject({ status: 'ok' });
    expect(await leave({ stopWhenGone: true }, 'application/json')).toMatchObject({ status: 'interrupted' });
    expect(await leave({ stopWhenGone: true }, 'application/x-ndjson')).toMatchObject({ status: 'interrupted' });
  });

  it('can be interrupted by another client', async () => {
    const { id } = await server.session({ agentKey: 'stop' });
    const response = await server.fetch(`POST /v1/sessions/${id}/execute`, {
      body: { code: 'print("go")\nwhile True: pass' },
      headers: { accept: 'application/x-ndjson' },
    });
    const lines = await ndjson<Numbered & { status?: string }>(response, async (event) => {
      if (event.type !== 'stdout') return;
      expect((await server.call(`POST /v1/sessions/${id}/interrupt`)).json).toEqual({ interrupted: true });
    });
    expect(lines.at(-1)).toMatchObject({ type: 'result', status: 'interrupted' });
  });
});

describe('events', () => {
  it('are numbered without gaps, on pages and in streams from any number', async () => {
    const { id } = await server.session({ agentKey: 'pages' });
    for (let cell = 0; cell < 5; cell++) await server.run(id, `print(${cell})`);
    const all = await events(id);
    expect(all.map(({ seq }) => seq)).toEqual(all.map((_, index) => index + 1));
    const paged: Numbered[] = [];
    for (let after = 0; ; ) {
      const { json } = await server.call<{ events: Numbered[]; next: number; last: number }>(
        `GET /v1/sessions/${id}/events?after=${after}&limit=3`,
      );
      paged.push(...json.events);
      after = json.next;
      if (after >= json.last) break;
    }
    expect(paged).toEqual(all);
    const accept = 'application/x-ndjson';
    const rest = await server.fetch(`GET /v1/sessions/${id}/events?after=7`, { headers: { accept } });
    const lines = await ndjson<Numbered>(rest, async ({ seq }) => seq < all.length);
    expect(lines).toEqual(all.slice(7));
    const resumed = await server.fetch(`GET /v1/sessions/${id}/events`, {
      headers: { accept: 'text/event-stream', 'last-event-id': '9' },
    });
    const parts = await sse(resumed, async ({ data }) => Number(data.seq) < all.length);
    expect(parts.map(({ data }) => data)).toEqual(all.slice(9));
  });

  it('arrive exactly once for a reader that reconnects again and again', async () => {
    const { id } = await server.session({ agentKey: 'reconnects' });
    const running = server.run(id, 'for i in range(2000): print(i, flush=i % 20 == 0)');
    const seen: Numbered[] = [];
    for (let over = false; !over; ) {
      const after = seen.at(-1)?.seq ?? 0;
      const feed = await server.fetch(`GET /v1/sessions/${id}/events?after=${after}`, {
        headers: { accept: 'application/x-ndjson' },
      });
      let taken = 0;
      await ndjson<Numbered>(feed, async (event) => {
        seen.push(event);
        over = event.type === 'result';
        return !over && ++taken < 3;
      });
    }
    const { stdout } = (await running) as { stdout: string };
    expect(seen.map(({ seq }) => seq)).toEqual(seen.map((_, index) => index + 1));
    const text = seen.map((event) => (event.type === 'stdout' ? event.text : '')).join('');
    expect(text).toBe(stdout);
  });
});

describe('state', () => {
  it('can be read, saved, restored and forked', async () => {
    const { id } = await server.session({ agentKey: 'state', undo: 3 });
    const at = `/v1/sessions/${id}`;
    await server.run(id, 'x = 1');
    expect((await server.call(`POST ${at}/checkpoints`, { body: { name: 'one' } })).status).toBe(201);
    await server.run(id, 'x = 2');
    expect((await server.call(`GET ${at}/variables`)).json).toMatchObject({ variables: [{ name: 'x', preview: '2' }] });
    expect((await server.call(`GET ${at}/checkpoints`)).json).toMatchObject({ checkpoints: [{ name: 'one' }] });
    expect((await server.call(`POST ${at}/checkpoints/one/restore`)).status).toBe(200);
    expect(await server.run(id, 'x')).toMatchObject({ value: 1 });
    await server.run(id, 'x = 3');
    expect((await server.call(`POST ${at}/undo`)).status).toBe(204);
    expect(await server.run(id, 'x')).toMatchObject({ value: 1 });
    expect(await server.run(id, 'x = 9', { transaction: 'explicit' })).toMatchObject({ transaction: 'open' });
    expect((await server.call(`POST ${at}/rollback`)).status).toBe(204);
    expect(codeOf(await server.call(`POST ${at}/commit`))).toBe('NO_TRANSACTION');
    expect(await server.run(id, 'y = 5', { transaction: 'explicit' })).toMatchObject({ transaction: 'open' });
    expect((await server.call(`POST ${at}/commit`)).status).toBe(204);
    expect(codeOf(await server.call(`POST ${at}/rollback`))).toBe('NO_TRANSACTION');
    expect(await server.run(id, 'y')).toMatchObject({ value: 5 });
    const fork = await server.call(`POST ${at}/fork`, { body: { agentKey: 'state-2' } });
    expect(fork).toMatchObject({ status: 201, json: { forkOf: id } });
    expect(await server.run(String(fork.json.id), 'x')).toMatchObject({ value: 1 });
    expect((await server.call(`DELETE ${at}/checkpoints/one`)).status).toBe(204);
    expect(codeOf(await server.call(`DELETE ${at}/checkpoints/one`))).toBe('CHECKPOINT_NOT_FOUND');
    const complete = await server.call(`POST ${at}/complete`, { body: { code: 'impor' } });
    expect(complete.json).toMatchObject({ matches: [{ text: 'import' }] });
    expect((await server.call(`POST ${at}/is-complete`, { body: { code: 'if x:' } })).json.status).toBe('incomplete');
    expect((await server.call(`POST ${at}/inspect`, { body: { code: 'len' } })).json).toMatchObject({ found: true });
    expect((await server.call(`POST ${at}/hibernate`)).status).toBe(204);
    expect((await server.call(`GET ${at}`)).json).toMatchObject({ state: 'hibernated' });
    expect(await server.run(id, 'x')).toMatchObject({ value: 1 });
    expect((await server.call(`POST ${at}/reset`)).status).toBe(204);
    expect(await server.run(id, 'x')).toMatchObject({ status: 'error' });
    expect((await server.call(`GET ${at}/history`)).json).toHaveProperty('history.0.code', 'x = 1');
  });

  it('is listed by its state and its owner', async () => {
    const [asleep, awake] = [await server.session({ agentKey: 'asleep' }), await server.session({ agentKey: 'awake' })];
    for (const { id } of [asleep, awake]) await server.run(id, '1');
    await server.call(`POST /v1/sessions/${asleep.id}/hibernate`);
    const theirs = await server.session({ agentKey: 'theirs' }, await server.user('lister', 'member'));
    const list = async (query: string) =>
      (await server.call<{ sessions: { id: string }[] }>(`GET /v1/sessions?${query}`)).json.sessions.map(
        ({ id }) => id,
      );
    const [idle, hibernated] = [await list('state=idle'), await list('state=hibernated')];
    expect(idle).toContain(awake.id);
    expect(idle).not.toContain(asleep.id);
    expect(hibernated).toContain(asleep.id);
    expect(hibernated).not.toContain(awake.id);
    expect(await list(`owner=${theirs.ownerId}`)).toEqual([theirs.id]);
    expect((await server.call('GET /v1/sessions?state=sleepy')).status).toBe(400);
  });

  it('exists once per agent key, and conflicts with other options', async () => {
    const one = await server.session({ agentKey: 'same', labels: { team: 'risk' } });
    const again = await server.call('POST /v1/sessions', { body: { agentKey: 'same', labels: { team: 'risk' } } });
    expect(again).toMatchObject({ status: 200, json: { id: one.id } });
    const other = await server.call('POST /v1/sessions', { body: { agentKey: 'same', limits: { memoryMb: 64 } } });
    expect(other).toMatchObject({ status: 409 });
    expect(codeOf(other)).toBe('SESSION_CONFLICT');
    const listed = await server.call<{ sessions: { id: string }[] }>('GET /v1/sessions?label=team=risk&limit=1');
    expect(listed.json.sessions.map(({ id }) => id)).toEqual([one.id]);
    const changed = await server.call(`PATCH /v1/sessions/${one.id}`, { body: { name: 'Risk', timeoutMs: 100 } });
    expect(changed.json).toMatchObject({ name: 'Risk', settings: { timeoutMs: 100 } });
    expect((await server.call(`DELETE /v1/sessions/${one.id}`)).status).toBe(204);
    expect(await server.call(`GET /v1/sessions/${one.id}`)).toMatchObject({ status: 404 });
  });
});
