/** Users of one server never meet in skills, artifacts and deps: over REST, inside the kernel, and over MCP. */

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { beforeAll, describe, expect, it } from 'vitest';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { folderName } from '../../../src/storage/validation.ts';
import { textOf } from '../../mcp/client.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { makeWheel } from '../../support/packages/wheels.ts';
import { type Answer, TestServer } from '../../support/servers/server.ts';

let server: TestServer;
let dataDir: string;
let ann: SeparateUser;
let bob: SeparateUser;
let admin: SeparateUser;

beforeAll(async () => {
  dataDir = await scratchFolder();
  const wheels = join(await scratchFolder(), 'wheels');
  await makeWheel(wheels, 'tiny-a');
  server = await TestServer.start({
    dataDir,
    session: { packages: { wheelFolders: [wheels], noIndex: true } },
  });
  ann = await SeparateUser.of(await server.user('ann', 'member'));
  bob = await SeparateUser.of(await server.user('bob', 'member'));
  admin = await SeparateUser.of(server.token);
});

/** A user with a session of its own. */
class SeparateUser {
  readonly token: string;
  readonly userId: string;
  readonly session: string;

  private constructor(token: string, userId: string, session: string) {
    this.token = token;
    this.userId = userId;
    this.session = session;
  }

  static async of(token: string): Promise<SeparateUser> {
    const { id, ownerId } = await server.session({ agentKey: 'main' }, token);
    return new SeparateUser(token, ownerId, id);
  }

  /** `what` is a method and a path behind that of a session. */
  call(what: string, body?: unknown, session = this.session): Promise<Answer> {
    const [method, path] = what.split(' ');
    return server.call(`${method} /v1/sessions/${session}${path}`, { token: this.token, body });
  }

  async value(code: string, session = this.session): Promise<unknown> {
    const { json } = await this.call('POST /execute', { code }, session);
    return json.status === 'ok' ? json.value : (json.error as { name: string }).name;
  }

  async artifacts(session = this.session): Promise<string[]> {
    const { json } = await this.call('GET /artifacts', undefined, session);
    return (json.artifacts as { name: string }[]).map(({ name }) => name);
  }

  async tool(name: string): Promise<string> {
    const client = new Client({ name: 'test', version: '1' });
    const requestInit = { headers: { authorization: `Bearer ${this.token}` } };
    const url = new URL(`/v1/sessions/${this.session}/mcp`, server.url);
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
    const result = await client.callTool({ name, arguments: {} });
    await client.close();
    return textOf(result);
  }
}

const codeOf = ({ json }: Answer): unknown => (json.error as { code?: string } | undefined)?.code;
const saying = (word: string) => `async def run():\n    """Says a word."""\n    return "${word}"\n`;

describe('artifacts', () => {
  it('are visible to nobody else, through any interface', async () => {
    await ann.value('artifacts.save("secret", "of ann")');
    expect(await ann.artifacts()).toEqual(['secret']);
    for (const other of [bob, admin]) {
      expect(await other.artifacts()).toEqual([]);
      expect((await other.call('GET /artifacts/secret')).status).toBe(404);
      expect((await other.call('GET /artifacts/secret/content')).status).toBe(404);
      expect((await other.call('DELETE /artifacts/secret')).status).toBe(404);
      expect(await other.value('[a["name"] for a in artifacts.list()]')).toEqual([]);
      expect(await other.value('artifacts.load("secret")')).toBe('CellaLookupError');
      expect(await other.tool('list_artifacts')).not.toContain('secret');
    }
    expect(await ann.tool('list_artifacts')).toContain('secret');
  });

  it('with the same name can belong to several users', async () => {
    await ann.value('artifacts.save("same", "of ann")');
    await bob.call('PUT /artifacts/same/content?type=text', 'of bob');
    await admin.value('artifacts.save("same", "of the admin")');
    const all = await Promise.all([ann, bob, admin].map((one) => one.value('artifacts.load("same")')));
    expect(all).toEqual(['of ann', 'of bob', 'of the admin']);
    await bob.call('DELETE /artifacts/same');
    expect(await ann.artifacts()).toContain('same');
  });

  it('cannot be reached by names that lead out of the user’s own', async () => {
    const foreign = `../../${folderName(ann.userId)}/artifacts/secret`;
    for (const name of ['../secret', foreign, '/etc/passwd', '.about', `${ann.userId}/secret`]) {
      const path = `/artifacts/${encodeURIComponent(name)}`;
      expect.soft({ name, code: codeOf(await bob.call(`GET ${path}`)) }).toEqual({ name, code: 'INVALID_NAME' });
      expect.soft((await bob.call(`PUT ${path}/content`, 'x')).status).toBe(400);
      const inside = await bob.value(`artifacts.load(${JSON.stringify(name)})`);
      expect.soft({ name, inside }).toEqual({ name, inside: 'CellaValueError' });
    }
  });

  it('of the operator are those of sessions without a server', async () => {
    await admin.value('artifacts.save("plain", "of the operator")');
    await using storage = await FileStorage.open(dataDir);
    expect((await storage.artifacts.list()).map(({ name }) => name)).toContain('plain');
    expect(await storage.artifacts.get('secret')).toBeUndefined();
  });
});

describe('skills', () => {
  it('of a member belong only to that member, and do not change what others call', async () => {
    await admin.call('POST /skills', { name: 'word', source: saying('admin') });
    await bob.call('POST /skills', { name: 'word', source: saying('bob'), replace: true });
    await bob.call('POST /skills', { name: 'own', source: saying('bob') });
    expect(await admin.value('await skills.word()')).toBe('admin');
    expect(await bob.value('await skills.word()')).toBe('bob');
    expect(await admin.value('[s["name"] for s in skills.list()]')).toEqual(['word']);
    expect((await ann.call('GET /skills/own')).status).toBe(404);
    expect(await ann.value('skills.own()')).toBe('CellaLookupError');
    expect(await ann.tool('list_skills')).not.toContain('own');
    expect(await bob.tool('list_skills')).toContain('own');
  });

  it('of the operator can be used by everybody, and changed by nobody else', async () => {
    expect(await ann.value('await skills.word()')).toBe('admin');
    expect((await ann.call('GET /skills')).json.skills).toMatchObject([{ name: 'word', shared: true }]);
    expect(await ann.value('[s.get("shared") for s in skills.list()]')).toEqual([true]);
    expect(codeOf(await ann.call('DELETE /skills/word'))).toBe('FORBIDDEN');
    expect((await admin.call('GET /skills/word')).json.shared).toBeUndefined();
    expect((await bob.call('GET /skills/word')).json.shared).toBeUndefined();
    expect((await bob.call('DELETE /skills/word')).status).toBe(204);
    expect(await bob.value('await skills.word()')).toBe('admin');
  });
});

describe('packages', () => {
  it('are those that the user has added, and nobody else has them', async () => {
    const added = await ann.call('POST /deps', { requirements: ['tiny-a'] });
    expect(added.json).toMatchObject({ installed: ['tiny-a'], failed: [] });
    expect((await ann.call('GET /deps')).json).toEqual({ deps: ['tiny-a'] });
    await ann.call('POST /restart');
    expect(await ann.value('import tiny_a; tiny_a.VERSION')).toBe('1.0.0');
    for (const other of [bob, admin]) {
      expect((await other.call('GET /deps')).json).toEqual({ deps: [] });
      expect(await other.value('deps.list()')).toEqual([]);
      expect(await other.tool('list_deps')).not.toContain('tiny-a');
      await other.call('POST /restart');
      expect(await other.value('import tiny_a')).toBe('ModuleNotFoundError');
      await other.call('DELETE /deps/tiny-a');
    }
    expect((await ann.call('GET /deps')).json).toEqual({ deps: ['tiny-a'] });
    await bob.call('POST /deps', { requirements: ['tiny-a'] });
    const [python = ''] = (await readdir(join(dataDir, 'packages'))).filter((name) => name.startsWith('cp'));
    expect(await readdir(join(dataDir, 'packages', python))).toHaveLength(1);
    await ann.call('DELETE /deps/tiny-a');
    expect((await bob.call('GET /deps')).json).toEqual({ deps: ['tiny-a'] });
  });
});

describe('tools', () => {
  it('are the operator’s: the same for all users, and members cannot change them', async () => {
    const yaml = 'name: hello\ndescription: Greets\ncommand: [echo, hello]\n';
    for (const member of [ann, bob]) {
      expect((await member.call('POST /tools', { yaml })).status).toBe(403);
      expect((await member.call('DELETE /tools/hello')).status).toBe(403);
    }
    expect(await admin.call('POST /tools', { yaml })).toMatchObject({ status: 201 });
    for (const one of [ann, bob, admin]) {
      expect(await one.value('[t["name"] for t in tools.list()]')).toEqual(['hello']);
    }
  });
});

describe('a shared session', () => {
  it('uses what belongs to its owner, whoever uses the session', async () => {
    await ann.call('PATCH ', { shares: [{ user: 'bob', right: 'use' }] });
    expect(await bob.artifacts(ann.session)).toContain('secret');
    await bob.value('artifacts.save("from bob", "x")', ann.session);
    expect(await ann.artifacts()).toContain('from bob');
    expect(await bob.artifacts()).not.toContain('from bob');
    await ann.call('PATCH ', { shares: [{ user: 'bob', right: 'view' }] });
    expect((await bob.call('GET /artifacts', undefined, ann.session)).status).toBe(403);
    await ann.call('PATCH ', { shares: [] });
    expect((await bob.call('GET /artifacts', undefined, ann.session)).status).toBe(404);
  });

  it('that another user forks uses that user’s, and its parent keeps its own', async () => {
    await bob.value('artifacts.save("bobs", "of bob")');
    await ann.value('live = (number for number in [42])');
    await ann.call('PATCH ', { shares: [{ user: 'bob', right: 'manage' }] });
    const { json } = await bob.call('POST /fork', { agentKey: 'forked' }, ann.session);
    await ann.call('PATCH ', { shares: [] });
    const fork = String(json.id);
    expect(json.ownerId).toBe(bob.userId);
    // What cannot be saved: it is the kernel’s memory, and not a copy of its names.
    expect(await bob.value('next(live)', fork)).toBe(42);
    expect(await bob.artifacts(fork)).toEqual(['bobs']);
    expect((await bob.call('POST /confirm', undefined, fork)).status).toBe(200);
    expect(await bob.value('[[a["name"] for a in artifacts.list()], deps.list()]', fork)).toEqual([
      ['bobs'],
      ['tiny-a'],
    ]);
    await bob.call('POST /deps/sync', undefined, fork);
    await ann.call('POST /restart');
    expect(await ann.value('import tiny_a')).toBe('ModuleNotFoundError');
    expect(await ann.value('artifacts.load("secret")')).toBe('of ann');
    expect((await bob.call('DELETE ', undefined, fork)).status).toBe(204);
  });
});

it('data of a user counts towards the user’s quota', async () => {
  await ann.value('artifacts.save("large", b"x" * 4_000_000)');
  await server.call('PATCH /v1/users/ann', { body: { quotas: { storageBytes: 3_000_000 } } });
  const refused = await ann.call('POST /execute', { code: '1' });
  expect(refused).toMatchObject({ status: 429, json: { error: { details: { quota: 'storageBytes' } } } });
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  expect((await ann.call('POST /skills', { name: 'more', source: saying('x') })).status).toBe(429);
  await server.call('PATCH /v1/users/ann', { body: { quotas: {} } });
});

it('data of a deleted user is gone, including forks by others, and not available to a later user of that name', async () => {
  await ann.call('PATCH ', { shares: [{ user: 'bob', right: 'manage' }] });
  const fork = String((await bob.call('POST /fork', { agentKey: 'in the workspace of ann' }, ann.session)).json.id);
  const folder = join(dataDir, 'scopes', folderName(ann.userId));
  expect(await readdir(folder)).toContain('artifacts');
  expect((await server.call('DELETE /v1/users/ann')).status).toBe(204);
  await expect(readdir(folder)).rejects.toThrow('ENOENT');
  expect((await bob.call('GET ', undefined, fork)).status).toBe(404);
  const next = await SeparateUser.of(await server.user('ann', 'member'));
  expect(await next.artifacts()).toEqual([]);
  expect((await next.call('GET /deps')).json).toEqual({ deps: [] });
  expect(await bob.artifacts()).toContain('bobs');
});
