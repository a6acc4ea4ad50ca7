/** A server with one of everything in it, and the check that all of it is there and works. */

import { expect } from 'vitest';
import { type Client, connect } from '../../src/client/index.ts';
import type { SessionApi } from '../../src/index.ts';
import type { ServerParts } from '../../src/server/run-server.ts';
import { decide, prompt } from '../support/servers/agent-server.ts';
import { TestServer } from '../support/servers/server.ts';

/** What cannot be looked up later. */
export interface Facts {
  readonly adminToken: string;
  readonly memberToken: string;
  readonly session: string;
  readonly fork: string;
  readonly turn: string;
}

const KEY = 'sk-ant-golden-0123456789';

export interface WorldOptions {
  readonly dataDir?: string;
  readonly storage?: ServerParts['storage'];
  readonly runner: string;
  readonly programs: string;
  readonly wheels: string;
}

export async function startWorld({ wheels, runner, programs, ...place }: WorldOptions): Promise<TestServer> {
  return await TestServer.start({
    ...place,
    agents: { programs: { runner, agents: programs } },
    session: { packages: { wheelFolders: [wheels], noIndex: true } },
    // Fixtures may be of any age, and stay small.
    hosting: { retention: { maxAgeMs: 0 }, limits: { inlineBytes: 10_000 } },
  });
}

const SETUP = `
number, text, raw, when = 42, "grüße", b"\\x00\\xff", (1, 2.5, None)
nested = {"list": [1, [2, 3]], "set": {1, 2}, 7: True}
shared = [0]
also_shared = shared
def double(x):
    return 2 * x
class Point:
    def __init__(self, x):
        self.x = x
    def moved(self, by):
        return Point(self.x + by)
point = Point(3)
def counter(start):
    count = start
    def step():
        nonlocal count
        count += 1
        return count
    return step
step = counter(10)
step()
import json as codec
import dataclasses, functools, random, sys, threading, types
import numpy
lock, rlock, output, unset = threading.Lock(), threading.RLock(), sys.stdout, dataclasses.MISSING
@functools.lru_cache(maxsize=5)
def cached(x):
    return x + 1
proxy, view, modules = types.MappingProxyType({"a": 1}), nested.keys(), [threading]
whole = numpy.arange(6)
part = whole[2:4]
namespaces, tool, skill = [tools, skills, artifacts, deps], tools.shout, skills.triple
random.seed(7)
print("set up")
`;
/** Of the names above, in the kernel that has them. */
const LOOK = `
def seen():
    whole[2] = 20
    yield from (number, text, list(raw), when, nested["list"], sorted(nested["set"]), shared is also_shared)
    yield from (double(21), point.moved(4).x, isinstance(point, Point), step(), codec.dumps([1]))
    yield from (lock.acquire(False), rlock.acquire(False), output is sys.stdout, unset is dataclasses.MISSING)
    yield from (cached(1), cached.cache_parameters()["maxsize"], proxy["a"], list(view), modules == [threading])
    yield from (part.tolist(), namespaces == [tools, skills, artifacts, deps], tool("hi"), skill(n=2), random.random())
list(seen())`;
const SEEN = [
  ...[42, 'grüße', [0, 255], [1, 2.5, null], [1, [2, 3]], [1, 2], true],
  ...[42, 7, true, 12, '[1]'],
  ...[true, true, true, true],
  ...[2, 5, 1, ['list', 'set', 7], true],
  ...[[20, 3], true, 'hi\n', 6, 0.32383276483316237],
];

const TOOL = `name: shout
description: Says it aloud
command: echo
schema:
  options: {}
  positional: [{ name: words, variadic: true, type: string }]
`;

async function connectTo(server: TestServer, token = server.token): Promise<Client> {
  return await connect({ url: server.url, token });
}

/** Through the API alone, as clients would. */
export async function fillWorld(server: TestServer): Promise<Facts> {
  await using client = await connectTo(server);
  await client.users.create({ name: 'ada', role: 'member', quotas: { sessions: 9, modelUsdPerDay: 1.5 } });
  const { token: memberToken } = await client.tokens.create({
    name: 'laptop',
    user: 'ada',
    scopes: ['view', 'use', 'manage'],
  });
  await client.credentials.set('anthropic', KEY);
  await client.permissionRules.create({ tool: 'Bash', pattern: 'make *' });
  await client.profiles.set('reviewer', { systemPrompt: 'Be brief.' });

  const session = await client.open({ agentKey: 'everything', name: 'All of it', labels: { kind: 'golden' } });
  const ada = await client.users.get('ada');
  const shares = [{ userId: ada.id, userName: ada.name, right: 'use' as const }];
  await client.sessions.update(session.id, { shares });
  await session.skills.create({
    name: 'triple',
    source: 'async def run(n: int):\n    """Three times n."""\n    return 3 * n\n',
  });
  await session.tools.create(TOOL);
  expect(await session.run(SETUP)).toMatchObject({ status: 'ok' });
  await session.run('display({"a": 1})');
  await session.run('1 / 0');
  // More than the log takes: the rest of it goes to a file.
  await session.run('for _ in range(5): print("x" * 9_000, flush=True)');
  await session.checkpoint({ name: 'before', durable: true });
  await session.run('number = 43; later = "saved"');
  await session.files.write('notes/a.txt', 'A file of the workspace.\n');
  await session.artifacts.save('report.md', Buffer.from('# Report\n'), {
    ...{ type: 'text', mediaType: 'text/markdown', description: 'A report' },
    metadata: { pages: 1 },
  });
  await session.deps.add('tiny-thing');
  const asked = prompt(server, session.id, 'permit pytest -q');
  await decide(server, session.id, { decision: 'allow', scope: 'session' });
  const { json: turn } = await asked;
  await session.save();
  const fork = await session.fork({ agentKey: 'forked' });
  await fork.run('forked_here = number');
  await fork.save();
  await using member = await connectTo(server, memberToken);
  const own = await member.open({ agentKey: 'of ada' });
  await own.run('mine = "ada"');
  await own.hibernate();
  return { adminToken: server.token, memberToken, session: session.id, fork: fork.id, turn: turn.id };
}

/** Reads all of it, goes on where the session was, and goes back to its checkpoint. */
export async function checkWorld(server: TestServer, facts: Facts): Promise<void> {
  expect(server.token).toBe(facts.adminToken);
  await using client = await connectTo(server);
  expect(await client.users.get('ada')).toMatchObject({ role: 'member', quotas: { sessions: 9, modelUsdPerDay: 1.5 } });
  expect((await client.tokens.list({ user: 'ada' })).map(({ name }) => name)).toEqual(['laptop']);
  expect(await client.credentials.list()).toMatchObject([{ provider: 'anthropic' }]);
  expect(await client.permissionRules.list()).toMatchObject([{ tool: 'Bash', pattern: 'make *' }]);
  expect(await client.profiles.get('reviewer')).toMatchObject({ profile: { systemPrompt: 'Be brief.' } });
  // It decrypts what it encrypts anew.
  expect(await client.credentials.rotate()).toEqual({ rotated: 1, left: [] });

  const session = await client.session(facts.session);
  const info = await client.sessions.get(facts.session);
  expect(info).toMatchObject({ name: 'All of it', labels: { kind: 'golden' }, state: 'hibernated' });
  expect(info.shares).toMatchObject([{ userName: 'ada', right: 'use' }]);
  const { events, trimmedThrough } = await session.eventPage();
  const types = new Set<string>(events.map(({ type }) => type));
  const wanted = ['execution_started', 'stdout', 'display', 'result', 'output_file', 'saved', 'session_state'];
  expect(events.filter(({ type }) => type === 'saved')).toContainEqual(
    expect.objectContaining({ variables: expect.any(Number) }),
  );
  const ofTurns = ['turn_started', 'item_completed', 'permission_requested', 'permission_resolved', 'turn_ended'];
  expect(trimmedThrough).toBe(0);
  expect([...wanted, ...ofTurns].filter((type) => !types.has(type))).toEqual([]);
  expect((await session.permissionRules()).map(({ tool }) => tool)).toEqual(['Bash']);
  expect(await session.permissions()).toMatchObject([{ turn: facts.turn, state: 'resolved' }]);
  expect(await session.transcript()).toMatchObject({ agent: 'claude' });

  expect(await textOf(session.files.read('notes/a.txt'))).toBe('A file of the workspace.\n');
  const artifact = await session.artifacts.load('report.md');
  expect(artifact.info).toMatchObject({ type: 'text', description: 'A report', metadata: { pages: 1 } });
  expect(await textOf(artifact.chunks)).toBe('# Report\n');
  expect(await session.tools.call('shout', {}, { positional: ['hi'] })).toBe('hi\n');
  expect(await session.deps.list()).toEqual(['tiny-thing']);

  await session.deps.sync();
  const resumed = await session.run('number, later, __import__("tiny_thing").VERSION, skills.triple(n=5)');
  expect(resumed).toMatchObject({ status: 'ok', value: [43, 'saved', '1.0.0', 15] });
  await checkCheckpoint(session);
  expect((await session.run('"later" in globals()')).value).toBe(false);

  const fork = await client.session(facts.fork);
  expect((await fork.run('forked_here')).value).toBe(43);
  await using member = await connectTo(server, facts.memberToken);
  const own = await member.open({ agentKey: 'of ada' });
  expect((await own.run('mine')).value).toBe('ada');
}

/** Goes back to it in a kernel, and uses what it brings back. */
export async function checkCheckpoint(session: SessionApi): Promise<void> {
  const [before] = (await session.checkpoints()).filter(({ name }) => name === 'before');
  expect(before).toMatchObject({ kind: 'durable', automatic: false, lost: [] });
  const { lost = [] } = await session.restore('before');
  const { value: python } = await session.run('__import__("platform").python_version()');
  const [there, here] = [before?.python, python].map((version) => String(version).split('.').slice(0, 2).join('.'));
  // Another Python reads data, and functions by their source.
  const isSame = there === here;
  if (isSame) expect(lost).toEqual([]);
  expect((await session.run(isSame ? LOOK : 'number, text, double(21)')).value).toEqual(
    isSame ? SEEN : [42, 'grüße', 42],
  );
}

async function textOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all).toString();
}
