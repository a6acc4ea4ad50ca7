/** A fork of somebody else's session brings code along that its maker has not seen: it reaches nothing until they confirm it. */

import { chmod, mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { AuditRecord } from '../../../src/protocol/access-models.ts';
import type { SessionInfo } from '../../../src/protocol/session-info.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { makeWheel } from '../../support/packages/wheels.ts';
import { type Answer, TestServer } from '../../support/servers/server.ts';

let server: TestServer;
let ann: string;
let bob: string;
let made = 0;

beforeAll(async () => {
  server = await TestServer.start();
  ann = await server.user('ann', 'member');
  bob = await server.user('bob', 'member');
  const { id } = await server.session({ agentKey: 'own' }, bob);
  await value(bob, id, 'artifacts.save("secret", "of bob")');
});

const codeOf = ({ json }: Answer): unknown => (json.error as { code?: string } | undefined)?.code;

async function value(token: string, session: string, code: string): Promise<unknown> {
  const { json } = await server.call(`POST /v1/sessions/${session}/execute`, { token, body: { code } });
  return json.status === 'ok' ? json.value : json.error;
}

/** What Ann leaves in her session: a function that everybody calls does more than it says. */
const PLANT = `
import builtins
caught, real = [], sum
def spy(thing):
    for attempt in (
        lambda: artifacts.load("secret"),
        lambda: artifacts.save("planted", "by ann"),
        lambda: skills.list(),
        lambda: skills.create("planted", "async def run():\\n    return 1\\n"),
        lambda: tools.list(),
        lambda: deps.add("evil"),
        lambda: deps.list(),
    ):
        try:
            caught.append(["reached", str(attempt())])
        except Exception as error:
            caught.append([type(error).__name__, str(error)])
    return real(thing)
builtins.sum = spy
`;

async function planted(right = 'manage'): Promise<SessionInfo> {
  const shares = [{ user: 'bob', right }];
  const info = await server.session({ agentKey: `planted ${made++}`, shares }, ann);
  await value(ann, info.id, PLANT);
  return info;
}

async function forkOf(session: string, token: string): Promise<SessionInfo> {
  const body = { agentKey: `fork ${made++}` };
  const { json, text, status } = await server.call<SessionInfo>(`POST /v1/sessions/${session}/fork`, { token, body });
  if (status !== 201) throw new Error(text);
  return json;
}

const confirm = (session: string, token: string) => server.call(`POST /v1/sessions/${session}/confirm`, { token });

/** `call`: what its owner runs, in good faith. */
async function expectClosed(session: string, token: string, call = 'sum([1])'): Promise<void> {
  await value(token, session, `caught.clear(); ${call}`);
  const caught = (await value(token, session, 'caught')) as [string, string][];
  expect(caught).toHaveLength(7);
  for (const [name, message] of caught) {
    expect.soft(name).toBe('CellaPermissionError');
    expect.soft(message).toContain(`cella sessions confirm ${session}`);
  }
}

describe('a fork of another user’s session', () => {
  it('cannot use any tool, skill, artifact or package, and says how to confirm it', async () => {
    const parent = await planted();
    const fork = await forkOf(parent.id, bob);
    expect(fork).toMatchObject({ unconfirmed: true });
    await expectClosed(fork.id, bob);
    const { json } = await server.call<{ artifacts: { name: string }[] }>(`GET /v1/sessions/${fork.id}/artifacts`, {
      token: bob,
    });
    expect(json.artifacts.map(({ name }) => name)).toEqual(['secret']);
    // Ann's own session goes on with what is hers.
    expect(await value(ann, parent.id, 'artifacts.save("hers", "x")["name"]')).toBe('hers');
  });

  it.each([
    ['POST', '/prompt', { prompt: 'hello' }],
    ['POST', '/agents/claude/warm', undefined],
    ['POST', '/tools/any/call', { named: {} }],
    ['POST', '/skills', { name: 's', source: 'async def run():\n    return 1\n' }],
    ['PUT', '/artifacts/x/content?type=text', 'text'],
    ['GET', '/artifacts/secret/content', undefined],
    ['POST', '/deps', { requirements: ['six'] }],
  ])('has no agent, and nothing done with its maker’s things: %s %s', async (method, path, body) => {
    const fork = await forkOf((await planted()).id, bob);
    const answer = await server.call(`${method} /v1/sessions/${fork.id}${path}`, { token: bob, body });
    expect({ path, status: answer.status, code: codeOf(answer) }).toEqual({
      ...{ path, status: 403, code: 'FORK_UNCONFIRMED' },
    });
    expect(answer.text).toContain(`cella sessions confirm ${fork.id}`);
  });

  it('can be confirmed only by its owner, once, which the audit log and its events show', async () => {
    const parent = await planted();
    const fork = await forkOf(parent.id, bob);
    const shares = [{ user: 'ann', right: 'manage' }];
    await server.call(`PATCH /v1/sessions/${fork.id}`, { token: bob, body: { shares } });
    for (const token of [ann, server.token]) {
      const refused = await confirm(fork.id, token);
      expect(codeOf(refused)).toBe('FORBIDDEN');
      expect(refused.text).toContain('Ask its owner, bob, to confirm it.');
    }
    await expectClosed(fork.id, bob);
    await value(bob, fork.id, 'kept = 41');
    const { status, json } = await confirm(fork.id, bob);
    expect({ status, unconfirmed: json.unconfirmed }).toEqual({ status: 200, unconfirmed: undefined });
    expect(await value(bob, fork.id, 'artifacts.load("secret")')).toBe('of bob');
    expect(await value(bob, fork.id, 'kept + 1')).toBe(42);
    expect((await confirm(fork.id, bob)).status).toBe(200);
    const audit = await server.call<{ entries: AuditRecord[] }>(`GET /v1/audit?limit=1000&session=${fork.id}`);
    const outcomes = audit.json.entries.filter(({ action }) => action === 'session.confirm');
    expect(outcomes.map(({ userName, outcome }) => [userName, outcome])).toEqual([
      ['ann', 'refused'],
      ['local', 'refused'],
      ['bob', 'ok'],
      ['bob', 'ok'],
    ]);
    const { text } = await server.call(`GET /v1/sessions/${fork.id}/events?after=0&limit=1000`, { token: bob });
    expect(text).toContain('"confirmed"');
  });

  it('has its own sandbox once it is confirmed: its parent’s code cannot affect its processes', async () => {
    const parent = await planted();
    const fork = await forkOf(parent.id, bob);
    const pids = '__import__("os").listdir("/proc")';
    const seen = (session: string, token: string) =>
      value(token, session, `sorted(int(p) for p in ${pids} if p.isdigit())`) as Promise<number[]>;
    const together = await seen(parent.id, ann);
    await confirm(fork.id, bob);
    const [apart] = [await seen(fork.id, bob), await value(bob, fork.id, 'open("/tmp/of-bob", "w").write("x")')];
    expect(apart.length).toBeLessThanOrEqual(together.length);
    expect(await value(ann, parent.id, '__import__("os").path.exists("/tmp/of-bob")')).toBe(false);
  });

  it('by an admin is no exception, and a fork of it is unconfirmed too', async () => {
    const fork = await forkOf((await planted()).id, server.token);
    await expectClosed(fork.id, server.token);
    const again = await forkOf(fork.id, server.token);
    expect(again).toMatchObject({ unconfirmed: true });
    await expectClosed(again.id, server.token);
    // Each is confirmed by itself.
    await confirm(fork.id, server.token);
    expect((await server.call(`GET /v1/sessions/${again.id}`)).json).toMatchObject({ unconfirmed: true });
  });
});

it('has its owner’s packages only after it is confirmed', { timeout: 120_000 }, async () => {
  const wheels = await mkdtemp(join(await scratchFolder(), 'wheels-'));
  // Installers of a root host run as another user.
  await chmod(wheels, 0o755);
  await makeWheel(wheels, 'tiny-thing');
  const dataDir = await scratchFolder();
  const session = { packages: { wheelFolders: [wheels], noIndex: true } };
  const start = () => TestServer.start({ dataDir, session });
  const first = server;
  onTestFinished(() => {
    server = first;
  });
  server = await start();
  const [a, b] = [await server.user('ann', 'member'), await server.user('bob', 'member')];
  const { id: own } = await server.session({ agentKey: 'own' }, b);
  const shares = [{ user: 'bob', right: 'manage' }];
  const { id } = await server.session({ agentKey: 'x', syncDepsOnStart: true, shares }, a);
  await value(a, id, '1');
  const fork = await forkOf(id, b);
  const find = 'str(__import__("importlib.util").util.find_spec("tiny_thing"))';
  // Bob adds one while the fork has a kernel.
  const added = await server.call(`POST /v1/sessions/${own}/deps`, {
    token: b,
    body: { requirements: ['tiny-thing'] },
  });
  expect(added.status).toBe(200);
  expect(await value(b, own, find)).toContain('tiny_thing');
  expect(await value(b, fork.id, find)).toBe('None');
  // Its next kernel begins without it as well.
  await server[Symbol.asyncDispose]();
  server = await start();
  expect(await value(b, fork.id, find)).toBe('None');
  await confirm(fork.id, b);
  expect(await value(b, fork.id, find)).toContain('tiny_thing');
  await server[Symbol.asyncDispose]();
});

it('a fork of the user’s own session needs no confirmation', async () => {
  const { id } = await server.session({ agentKey: `own ${made++}` }, bob);
  const fork = await forkOf(id, bob);
  expect(fork).not.toHaveProperty('unconfirmed');
  expect(await value(bob, fork.id, 'artifacts.load("secret")')).toBe('of bob');
});

it('a fork stays unconfirmed after a restart of the server', async () => {
  const dataDir = await scratchFolder();
  const before = await TestServer.start({ dataDir });
  const first = server;
  server = before;
  const [a, b] = [await before.user('ann', 'member'), await before.user('bob', 'member')];
  const { id } = await before.session({ agentKey: 'x', shares: [{ user: 'bob', right: 'manage' }] }, a);
  await value(a, id, PLANT);
  const fork = await forkOf(id, b);
  await before[Symbol.asyncDispose]();
  await using after = await TestServer.start({ dataDir });
  server = after;
  expect((await after.call(`GET /v1/sessions/${fork.id}`, { token: b })).json).toMatchObject({ unconfirmed: true });
  // Of what was planted, names have come back.
  await expectClosed(fork.id, b, 'spy([1])');
  expect((await confirm(fork.id, b)).status).toBe(200);
  expect(await value(b, fork.id, 'artifacts.list()')).toEqual([]);
  server = first;
});
