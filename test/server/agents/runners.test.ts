/** Runners that do not keep to the rules or have trouble, and what becomes of their turns: nobody else suffers. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { SessionEvent } from '../../../src/protocol/session-events.ts';
import type { TurnInfo } from '../../../src/protocol/turn.ts';
import type { RunnerSettings } from '../../../src/server/runners/runner-environment.ts';
import {
  agentServer,
  decide,
  eventsOf,
  hostileRunner,
  namedPrograms,
  prompt,
  setKey,
  until,
} from '../../support/servers/agent-server.ts';
import { provide } from '../../support/servers/gateway.ts';
import type { TestServer } from '../../support/servers/server.ts';

let server: TestServer;
let modelUrl: string;
let runner: string;
let programs: string;
let made = 0;

beforeAll(async () => {
  process.env.CELLA_TEST_SECRET = 'of the server alone';
  ({ url: modelUrl } = await provide((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': never ends\n\n');
  }));
  [runner, programs] = await Promise.all([hostileRunner(), namedPrograms()]);
  server = await agentServer({
    modelUrl,
    runner,
    programs,
    agents: { runners: { maxRunners: 3, stopMs: 2000, idleMs: 60_000, graceMs: 500 } },
  });
});

const session = async (more: Record<string, unknown> = {}) =>
  (await server.session({ agentKey: `x${++made}`, ...more })).id;
/** For what leaves nothing behind, and looks for its own words alone: a runner the less is started. */
let shared: Promise<string> | undefined;
const sharedSession = () => {
  shared ??= session();
  return shared;
};
const ended = (events: readonly SessionEvent[]) => events.filter(({ type }) => type === 'turn_ended');

test('a runner starts in advance if the client asks for it, and takes nobody’s place', async () => {
  const metric = async (name: string) => {
    const { text } = await server.call('GET /metrics');
    return Number(new RegExp(`^cella_runners_${name} (.*)$`, 'm').exec(text)?.[1]);
  };
  const warm = async (id: string, agent = 'claude') =>
    (await server.call(`POST /v1/sessions/${id}/agents/${agent}/warm`)).json;
  const [first, second, third, fourth] = await Promise.all([1, 2, 3, 4].map(() => session()));
  if (!first || !second || !third || !fourth) throw new Error('there are four');
  expect(await warm(first, 'nobody')).toMatchObject({ error: { code: 'AGENT_UNKNOWN' } });
  expect([await warm(first), await warm(first)]).toEqual([{ warm: true }, { warm: true }]);
  await expect.poll(() => metric('started_total'), { timeout: 30_000 }).toBe(1);
  expect([await metric('live'), await metric('busy')]).toEqual([1, 0]);
  expect((await prompt(server, first, 'plain')).json.status).toBe('completed');
  expect(await metric('started_total')).toBe(1);
  // Whoever is to have it may come back: there is room for three.
  expect([await warm(second), await warm(third), await warm(fourth)]).toEqual([
    { warm: true },
    { warm: true },
    { warm: false },
  ]);
  expect((await prompt(server, fourth, 'plain')).json.status).toBe('completed');
  expect(await metric('live')).toBe(3);
});

describe('a runner that names another turn', () => {
  test.each([
    ['session', 'session'],
    ['another', 'turn'],
    ['turn', 'turn'],
    ['token', 'token'],
  ])('with a forged %s is disconnected, and none of its messages is in any log', async (trick, what) => {
    const id = await session();
    const { json } = await prompt(server, id, trick);
    expect(json).toMatchObject({
      status: 'failed',
      error: { code: 'RUNNER_PROTOCOL', message: expect.stringContaining(what) },
    });
    expect(JSON.stringify(await eventsOf(server, id))).not.toContain('forged');
    const next = await prompt(server, id, 'plain');
    expect(next.json).toMatchObject({ status: 'completed', text: 'Done.' });
    const told = (await eventsOf(server, id)).find(({ type }) => type === 'agent_notice');
    expect(told).toMatchObject({ text: expect.stringContaining('was restarted') });
  });

  test.each(['replay', 'again'])('with the token of a turn that is over (%s) is disconnected', async (trick) => {
    const id = await session();
    expect((await prompt(server, id, 'plain')).json.status).toBe('completed');
    const { json } = await prompt(server, id, trick);
    expect(json).toMatchObject({ status: 'failed', error: { code: 'RUNNER_PROTOCOL' } });
    expect(JSON.stringify(await eventsOf(server, id))).not.toContain('forged');
  });
});

test('a runner is kept for the user who prompted, and never for another user in the same session', async () => {
  const id = await session({ shares: [{ role: 'member', right: 'use' }] });
  const token = await server.user('guest', 'member');
  await setKey(server, undefined, token);
  const left = async (more = {}) => (await prompt(server, id, 'left', more)).json.text;
  await prompt(server, id, 'plain');
  expect(await left()).toContain('was left');
  expect(await left({ token })).toBe('nothing was left');
  await prompt(server, id, 'plain', { token });
  expect(await left()).toBe('nothing was left');
});

test('a runner is kept for one session: no other session of the user gets it, nor a fork, nor one that needs its place', async () => {
  const [one, other, third] = [await session(), await session(), await session()];
  const left = async (id: string) => (await prompt(server, id, 'left')).json.text;
  await prompt(server, one, 'plain');
  const fork = await server.call<{ id: string }>(`POST /v1/sessions/${one}/fork`, { body: { agentKey: `x${++made}` } });
  expect(fork.status).toBe(201);
  expect(await left(other)).toBe('nothing was left');
  expect(await left(fork.json.id)).toBe('nothing was left');
  expect(await left(one)).toContain('was left');
  // All three places are taken: one of them has to go.
  expect(await left(third)).toBe('nothing was left');
  expect(await left(one)).toContain('was left');
});

test('its streams end with the token of its turn: the session’s MCP server, and an answer of a model', async () => {
  const id = await session();
  expect((await prompt(server, id, 'listen')).json).toMatchObject({ status: 'completed' });
  const { json } = await prompt(server, id, 'heard', { timeoutMs: 40_000 });
  expect(json).toMatchObject({ status: 'completed', text: 'mcp model' });
});

describe('a runner that breaks the protocol', () => {
  test.each([
    ['order', 'came instead of'],
    ['repeat', 'was sent before'],
    ['miscount', 'counted 7 messages'],
    ['flood', 'floods'],
    ['line', 'too long'],
    ['interrupted', 'as interrupted'],
    ['verbose', 'is invalid'],
  ])('by %s is disconnected with the reason, and another session continues', async (trick, reason) => {
    const [id, other] = await Promise.all([session(), session()]);
    const [broken, well] = await Promise.all([prompt(server, id, trick), prompt(server, other, 'plain')]);
    expect(broken.json).toMatchObject({
      status: 'failed',
      error: { code: 'RUNNER_PROTOCOL', message: expect.stringContaining(reason) },
    });
    expect(well.json).toMatchObject({ status: 'completed' });
  });
});

describe('before a turn', () => {
  const withProfile = async (systemPrompt: string) => {
    expect((await server.call(`PUT /v1/profiles/${systemPrompt}`, { body: { systemPrompt } })).status).toBe(200);
    return { profile: systemPrompt };
  };

  test('a runner is the only process: neither a profile nor a continued conversation starts another', async () => {
    const noting = await hostileRunner();
    await writeFile(join(noting, 'log'), '');
    const own = await agentServer({ modelUrl, runner: noting, programs, agents: { runners: { idleMs: 0 } } });
    const { id } = await own.session();
    await own.call('PUT /v1/profiles/mine', { body: { systemPrompt: 'Be short.', files: { 'a.txt': 'a' } } });
    const first = ['serve', 'setup_session without a conversation 1/1'];
    const told = async () => (await prompt(own, id, 'log', { profile: 'mine' })).json.text?.trim().split('\n');
    expect(await told()).toEqual(first);
    expect(await told()).toEqual([...first, 'serve', `setup_session talk-${id} 1/1`]);
  });

  test.each([
    ['liar', 'answered partial'],
    ['shapeless', 'is invalid'],
  ])('a runner that answers as a %s is disconnected, and the next works', async (name, reason) => {
    const id = await session();
    const { json } = await prompt(server, id, 'plain', await withProfile(name));
    const message = expect.stringContaining(reason);
    expect(json).toMatchObject({ status: 'failed', error: { code: 'RUNNER_PROTOCOL', message } });
    expect((await prompt(server, id, 'plain', await withProfile('honest'))).json.status).toBe('completed');
  });

  test('a runner that ends fails the turn with its exit code', async () => {
    const { json } = await prompt(server, await session(), 'plain', await withProfile('exit'));
    expect(json).toMatchObject({ status: 'failed', error: { message: expect.stringContaining('code 4') } });
  });

  test('a runner that does not answer is waited for until the turn is stopped, or the start timeout is over', async () => {
    const [id, more] = [await session(), await withProfile('silent')];
    const waiting = prompt(server, id, 'plain', more);
    await until(server, id, ({ type }) => type === 'turn_started');
    await server.call(`POST /v1/sessions/${id}/stop`);
    expect((await waiting).json.status).toBe('cancelled');
    const own = await agentServer({ modelUrl, runner, programs, agents: { runners: { startMs: 5000 } } });
    await own.call('PUT /v1/profiles/silent', { body: { systemPrompt: 'silent' } });
    const { json } = await prompt(own, (await own.session()).id, 'plain', more);
    const message = expect.stringContaining('setup_session was not answered within 5000 ms');
    expect(json).toMatchObject({ status: 'failed', error: { code: 'RUNNER_FAILED', message } });
  });
});

test.each(['endless', 'empty', 'shapeless'])(
  'a conversation that is %s is not stored, and its turn is not affected',
  async (how) => {
    const id = await session();
    expect((await prompt(server, id, `tell ${how}`)).json.status).toBe('completed');
    expect((await server.call(`GET /v1/sessions/${id}/transcript`)).status).toBe(404);
    expect((await prompt(server, id, 'plain')).json.status).toBe('completed');
    expect((await server.call(`GET /v1/sessions/${id}/transcript`)).json.text).toBe('said\nsaid\n');
  },
);

describe('a failing runner', () => {
  test('that is killed during a turn fails the turn with the signal: a signal counted as exit code 0', async () => {
    const id = await session();
    const { json } = await prompt(server, id, 'die');
    expect(json).toMatchObject({
      status: 'failed',
      error: { code: 'RUNNER_FAILED', message: expect.stringContaining('SIGKILL') },
    });
    const { json: next } = await prompt(server, id, 'plain');
    expect(next).toMatchObject({ status: 'completed', conversation: `talk-${id}` });
  });

  test('that exits with a code fails the turn with the code: non-zero exits were ignored', async () => {
    const { json } = await prompt(server, await session(), 'exit');
    expect(json).toMatchObject({ status: 'failed', error: { message: expect.stringContaining('code 3') } });
  });

  test('that uses up the CPU time of its session fails the turn with that reason, even if a child process ran out of memory before, and the next turn has another runner', async () => {
    const id = await session({ limits: { cpuSeconds: 1, memoryMb: 256 } });
    const { json } = await prompt(server, id, 'spin');
    expect(json).toMatchObject({
      status: 'failed',
      error: { code: 'RUNNER_FAILED', message: expect.stringContaining('SIGXCPU') },
    });
    expect(await eventsOf(server, id)).toContainEqual(expect.objectContaining({ text: 'a child: SIGKILL' }));
    expect((await prompt(server, id, 'plain')).json.status).toBe('completed');
  });

  test('that uses more memory than its session has fails the turn with that reason, and the next turn has another runner', async () => {
    const id = await session({ limits: { memoryMb: 256 } });
    const { json } = await prompt(server, id, 'devour');
    expect(json).toMatchObject({
      status: 'failed',
      error: {
        code: 'RUNNER_OUT_OF_MEMORY',
        message: expect.stringContaining('memory'),
        advice: expect.stringContaining('memoryMb'),
      },
    });
    expect((await prompt(server, id, 'plain')).json.status).toBe('completed');
  });

  test('starts no more processes than its session allows, and its turn continues', async () => {
    const { json } = await prompt(server, await session({ limits: { processes: 40 } }), 'crowd');
    expect(json).toMatchObject({ status: 'completed', text: expect.stringMatching(/^EAGAIN after \d+$/) });
    expect(Number(json.text?.split(' ').at(-1))).toBeLessThan(40);
  });

  test('has none of the server’s variables: the pool passed the server’s whole environment', async () => {
    const { json } = await prompt(server, await sharedSession(), 'variables');
    expect(json.text).toContain('HOME');
    expect(json.text).not.toContain('of the server alone');
    expect(json.text).not.toMatch(/CELLA_(?!ENVIRONMENT)/);
  });

  test('gets no key in gateway mode', async () => {
    const { json } = await prompt(server, await sharedSession(), 'key');
    expect(json.text).toContain('FORBIDDEN');
  });
});

describe('a turn', () => {
  test('can be stopped while it runs, even if the agent does not react, and the next turn starts', async () => {
    const [id, deaf] = await Promise.all([session(), session()]);
    const [hanging, unheard] = [prompt(server, id, 'hang'), prompt(server, deaf, 'deaf')];
    for (const one of [id, deaf]) await until(server, one, ({ type }) => type === 'agent_session');
    const stopped = await Promise.all([id, deaf].map((one) => server.call(`POST /v1/sessions/${one}/stop`)));
    expect(stopped.map(({ json }) => (json.turns as string[]).length)).toEqual([1, 1]);
    expect((await hanging).json).toMatchObject({ status: 'cancelled' });
    expect((await unheard).json).toMatchObject({ status: 'cancelled' });
    expect((await prompt(server, deaf, 'plain')).json.status).toBe('completed');
  });

  test('can be stopped, and its pending permission is cancelled: stop was refused while a permission was pending', async () => {
    const id = await session();
    const asking = prompt(server, id, 'permit rm -rf /');
    const [asked] = (await until(server, id, ({ type }) => type === 'permission_requested')).slice(-1);
    await server.call(`POST /v1/sessions/${id}/stop`);
    expect((await asking).json).toMatchObject({ status: 'cancelled' });
    const resolved = (await eventsOf(server, id)).find(({ type }) => type === 'permission_resolved');
    expect(resolved).toMatchObject({ outcome: 'cancelled', id: asked && 'id' in asked ? asked.id : '' });
  });

  test('gets the decision of the authenticated user', async () => {
    const id = await session();
    const asking = prompt(server, id, 'permit ls');
    await decide(server, id, { decision: 'deny', reason: 'not today' });
    expect((await asking).json.text).toContain('not today');
    const resolved = (await eventsOf(server, id)).find(({ type }) => type === 'permission_resolved');
    expect(resolved).toMatchObject({ outcome: 'denied', by: 'local' });
  });

  test('learns that nobody decided in time, refuses a late decision, and can ask again', async () => {
    const id = await session({ permissionTimeoutMs: 200 });
    expect((await prompt(server, id, 'permit ls')).json.text).toContain('"timed_out"');
    const events = await eventsOf(server, id);
    const [asked] = events.filter(({ type }) => type === 'permission_requested');
    expect(events.filter(({ type }) => type === 'permission_resolved')).toMatchObject([{ outcome: 'timed_out' }]);
    const late = `POST /v1/sessions/${id}/permissions/${asked && 'id' in asked ? asked.id : ''}`;
    expect(await server.call(late, { body: { decision: 'allow' } })).toMatchObject({
      status: 409,
      json: { error: { code: 'ALREADY_RESOLVED', details: { outcome: 'timed_out' } } },
    });
    await server.call(`PATCH /v1/sessions/${id}`, { body: { permissionTimeoutMs: 0 } });
    const again = prompt(server, id, 'permit ls');
    await decide(server, id, { decision: 'allow' }, { after: events.length });
    expect((await again).json.text).toContain('"allowed"');
  });

  test('waits for the one before it, is refused on request, and can be cancelled while it waits', async () => {
    const id = await session();
    const first = prompt(server, id, 'hang');
    await until(server, id, ({ type }) => type === 'agent_session');
    const { json: queued } = await prompt(server, id, 'plain', { wait: false });
    expect(queued).toMatchObject({ status: 'queued' });
    const refused = await prompt(server, id, 'plain', { onBusy: 'refuse' });
    expect(refused).toMatchObject({ status: 409, json: { error: { code: 'TURN_RUNNING' } } });
    const third = prompt(server, id, 'plain');
    const { json } = await server.call(`POST /v1/sessions/${id}/stop`, { body: { turn: queued.id } });
    expect(json.turns).toEqual([queued.id]);
    await server.call(`POST /v1/sessions/${id}/stop`);
    expect((await first).json.status).toBe('cancelled');
    expect((await third).json.status).toBe('completed');
    const { json: list } = await server.call<{ turns: TurnInfo[] }>(`GET /v1/sessions/${id}/turns`);
    expect(list.turns.map(({ status }) => status)).toEqual(['completed', 'cancelled', 'cancelled']);
  });

  test('ends at its timeout', async () => {
    const { json } = await prompt(server, await session(), 'hang', { timeoutMs: 300 });
    expect(json).toMatchObject({ status: 'timed_out' });
  });

  test('runs once with the same Idempotency-Key, however often it is requested', async () => {
    const id = await session();
    const headers = { 'idempotency-key': 'once' };
    const both = await Promise.all([1, 2].map(() => prompt(server, id, 'plain', { headers })));
    const later = await prompt(server, id, 'plain', { headers });
    expect(new Set([...both, later].map(({ json }) => json.id)).size).toBe(1);
    expect(later.json.replayed).toBe(true);
    for (const [text, more] of [['count x'], ['plain', { tools: ['Read'] }]] as const) {
      expect(await prompt(server, id, text, { headers, ...more })).toMatchObject({ status: 409 });
    }
    expect(ended(await eventsOf(server, id))).toHaveLength(1);
  });

  test('streams its own events to the end, in the format of Accept', async () => {
    const id = await session();
    const response = await server.fetch(`POST /v1/sessions/${id}/prompt`, {
      body: { prompt: 'plain' },
      headers: { accept: 'application/x-ndjson' },
    });
    const events = (await response.text())
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events.map(({ type }) => type)).toEqual(['turn_started', 'agent_session', 'item_completed', 'turn_ended']);
  });

  test('takes a prompt of 1 MB, and logs its beginning and the file with the rest', async () => {
    const id = await session();
    const words = 'é'.repeat(524_288);
    expect((await prompt(server, id, `count ${words}`)).json).toMatchObject({ status: 'completed', text: '524288' });
    const started = (await eventsOf(server, id)).find(({ type }) => type === 'turn_started');
    if (started?.type !== 'turn_started' || !started.file) throw new Error('it is not in a file');
    expect(started.prompt.length).toBeLessThan(10_000);
    const { text } = await server.call(`GET /v1/sessions/${id}/outputs/${started.file.file}`);
    expect(JSON.parse(text).prompt).toBe(`count ${words}`);
  });

  test('reports long texts in pieces and in files, like other output', async () => {
    const id = await session();
    await prompt(server, id, 'large');
    const events = await eventsOf(server, id);
    const deltas = events.flatMap((event) => (event.type === 'item_delta' ? [event.text] : []));
    expect(deltas.length).toBeGreaterThan(1);
    expect(deltas.join('')).toHaveLength(700_000);
    const item = events.find(({ type }) => type === 'item_completed');
    if (item?.type !== 'item_completed' || !item.file) throw new Error('it is not in a file');
    expect(JSON.parse((await server.call(`GET /v1/sessions/${id}/outputs/${item.file.file}`)).text).text).toHaveLength(
      700_000,
    );
    for (const event of events) expect(JSON.stringify(event).length).toBeLessThan(262_144);
  });

  test('logs unknown events unchanged', async () => {
    const id = await sharedSession();
    expect((await prompt(server, id, 'raw')).json.status).toBe('completed');
    const kept = (await eventsOf(server, id)).filter(({ type }) => type === 'agent_raw');
    expect(kept).toMatchObject([{ agent: 'claude', native: { type: 'teleported', to: ['mars'] } }]);
  });

  test.each(['a "quoted" name', 'two\nlines', '$(touch /tmp/never) `id`', '../../../etc/passwd', '日本 🐍'])(
    'says a name as it is: %j',
    async (name) => {
      const id = await sharedSession();
      expect((await prompt(server, id, `name ${name}`)).json.status).toBe('completed');
      expect(await eventsOf(server, id)).toContainEqual(expect.objectContaining({ tool: name, output: name }));
    },
  );
});

test('transcripts are stored by revision, and a deleted session leaves no turns', async () => {
  const id = await session();
  await prompt(server, id, 'plain');
  await prompt(server, id, 'plain');
  const { json } = await server.call(`GET /v1/sessions/${id}/transcript`);
  expect(json).toMatchObject({ agent: 'claude', conversation: `talk-${id}`, revision: 2, text: 'said\nsaid\n' });
  await server.call(`DELETE /v1/sessions/${id}`);
  expect((await server.call(`GET /v1/sessions/${id}/turns`)).status).toBe(404);
});

test('profiles belong to each user, are checked, and named in a prompt', async () => {
  const profile = { systemPrompt: 'Be short.', rules: { tone: 'kind' } };
  expect((await server.call('PUT /v1/profiles/mine', { body: profile })).json).toMatchObject({ name: 'mine', profile });
  expect((await server.call('PUT /v1/profiles/mine', { body: { rules: { 'a/b': '' } } })).status).toBe(400);
  const other = await server.user('other', 'member');
  expect((await server.call('GET /v1/profiles/mine', { token: other })).status).toBe(404);
  const { json: own } = await server.call<{ profiles: { name: string }[] }>('GET /v1/profiles');
  expect(own.profiles.filter(({ name }) => name === 'mine')).toHaveLength(1);
  expect((await server.call('GET /v1/profiles', { token: other })).json.profiles).toEqual([]);
  const id = await session();
  expect((await prompt(server, id, 'plain', { profile: 'mine' })).json).toMatchObject({
    status: 'completed',
    profile: 'mine',
  });
  expect((await prompt(server, id, 'plain', { profile: 'none' })).status).toBe(404);
  expect((await server.call('DELETE /v1/profiles/mine')).status).toBe(204);
});

test('bypass needs an isolated environment, and in-process sessions have none', async () => {
  const open = await session({ sandbox: 'off' });
  expect((await prompt(server, open, 'plain', { mode: 'bypass' })).json).toMatchObject({
    status: 'failed',
    error: { code: 'BYPASS_REFUSED' },
  });
  expect((await prompt(server, open, 'plain')).json.status).toBe('completed');
  const inside = await session({ executor: 'in-process' });
  expect((await prompt(server, inside, 'plain')).json).toMatchObject({
    status: 'failed',
    error: { code: 'CAPABILITY_MISSING' },
  });
});

test('the OpenAPI document lists the routes', async () => {
  const { json } = await server.call<{ paths: Record<string, unknown> }>('GET /openapi.json');
  for (const path of ['prompt', 'stop', 'transcript', 'usage', 'turns', 'permissions']) {
    expect(json.paths).toHaveProperty([`/v1/sessions/{id}/${path}`]);
  }
  expect(json.paths).toHaveProperty(['/v1/profiles/{name}']);
});

describe('the token of a turn', () => {
  const served = async (runners: Partial<RunnerSettings>) => {
    const limited = await agentServer({ modelUrl, runner, programs, agents: { runners } });
    const { id } = await limited.session();
    return (text: string) => prompt(limited, id, text);
  };

  test('is refused after its maximum number of calls, at the gateway and for calls of its runner', async () => {
    const ask = await served({ tokenUses: 3, pingEveryMs: 10 });
    // The first is what its runner tells of the conversation.
    expect((await ask('spend')).json).toMatchObject({ status: 'failed', error: { message: '200 200 401' } });
    // Each turn has one of its own, and that the server looks after it is no call of it.
    expect((await ask('pinged')).json.status).toBe('completed');
    const { json } = await ask('name x');
    const message = 'This session token has been used for its 3 calls.';
    expect(json).toMatchObject({ status: 'failed', error: { code: 'UNAUTHENTICATED', message } });
  });

  test('is refused after its lifetime', async () => {
    const { json } = await (await served({ tokenMs: 1 }))('plain');
    const message = 'This session token has expired.';
    expect(json).toMatchObject({ status: 'failed', error: { code: 'UNAUTHENTICATED', message } });
  });
});
