/** Tools, skills and artifacts in pages: no call looks through more than it gives, and clients follow them to the end. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { type Client, type ClientSession, connect } from '../../../src/client/index.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { TestServer } from '../../support/servers/server.ts';

/** More than fit into one page. */
const COUNT = 1100;
const KINDS = ['tools', 'skills', 'artifacts'] as const;
const name = (number: number) => `thing_${String(number).padStart(5, '0')}`;
const NAMES = Array.from({ length: COUNT }, (_, number) => name(number));

type Thing = { readonly name: string };
type Answer = Partial<Record<(typeof KINDS)[number], Thing[]>> & { readonly next?: string };

let server: TestServer;
let client: Client;
let session: ClientSession;

beforeAll(async () => {
  const dataDir = await scratchFolder();
  // As a person would put them there.
  const texts = {
    tools: (one: string) => [`${one}.yaml`, `name: ${one}\ndescription: Says so.\ncommand: [echo, hi]\n`],
    skills: (one: string) => [`${one}.py`, 'async def run():\n    """Does it."""\n'],
    artifacts: (one: string) => [one, 'x'],
  };
  for (const kind of KINDS) {
    mkdirSync(join(dataDir, kind), { recursive: true });
    for (const one of NAMES) {
      const [file = '', text = ''] = texts[kind](one);
      writeFileSync(join(dataDir, kind, file), text);
    }
  }
  server = await TestServer.start({ dataDir });
  client = await connect({ url: server.url, token: server.token });
  session = await client.session((await server.session({ agentKey: 'pages' })).id);
}, 120_000);
afterAll(() => server?.[Symbol.asyncDispose]());

/** A user has the same routes as each of their sessions. */
const prefixes = { user: () => '/v1', session: () => `/v1/sessions/${session.id}` };

describe.each(KINDS)('%s', (kind) => {
  it.each(['user', 'session'] as const)(
    'of a %s come in pages of at most a thousand, each with the start of the next',
    async (owner) => {
      const names: string[] = [];
      const sizes: number[] = [];
      const pageAfter = async (after: string): Promise<Answer> =>
        (await server.call<Answer>(`GET ${prefixes[owner]()}/${kind}?after=${after}`)).json;
      for (let page = await pageAfter(''); ; page = await pageAfter(page.next ?? '')) {
        names.push(...(page[kind] ?? []).map((one) => one.name));
        sizes.push(page[kind]?.length ?? 0);
        if (page.next === undefined) break;
      }
      expect(names).toEqual(NAMES);
      expect(sizes).toEqual([1000, 100]);
    },
  );

  it.each(['user', 'session'] as const)(
    'of a %s come in pages of any size, and the last one names no next page',
    async (owner) => {
      const place = `GET ${prefixes[owner]()}/${kind}`;
      const { json } = await server.call<Answer>(`${place}?limit=3&after=${name(4)}`);
      expect(json).toMatchObject({ [kind]: [5, 6, 7].map((number) => ({ name: name(number) })), next: name(7) });
      const last = await server.call<Answer>(`${place}?limit=3&after=${name(COUNT - 4)}`);
      expect(last.json[kind]?.map((one) => one.name)).toEqual(NAMES.slice(-3));
      expect(last.json).not.toHaveProperty('next');
      for (const wrong of ['limit=0', 'limit=1001', 'limit=x']) {
        expect((await server.call(`${place}?${wrong}`)).status).toBe(400);
      }
    },
  );

  it('are all available to a client, with a session and without one', async () => {
    expect((await session[kind].list()).map((one: Thing) => one.name)).toEqual(NAMES);
    expect((await client[kind].list()).map((one: Thing) => one.name)).toEqual(NAMES);
  });
});

it('code finds all artifacts, and a call that saves one returns without reading the list', async () => {
  expect((await session.run('[one["name"] for one in artifacts.list()]')).value).toEqual(NAMES);
  await session.run('skills.create("zz_new", "async def run(): pass"); artifacts.save("zz_new", 1)');
  const [skills, artifacts] = [await client.skills.list(), await client.artifacts.list()];
  expect([skills.at(-1)?.name, artifacts.at(-1)?.name]).toEqual(['zz_new', 'zz_new']);
});

it('artifacts with long metadata, and skills with long signatures, come in short pages', async () => {
  const token = await server.user('talker', 'member');
  const { id } = await server.session({ agentKey: 'talker' }, token);
  const talks = (count: number) => Array.from({ length: count }, (_, n) => `talk_${String(n).padStart(5, '0')}`);
  const code = `
for n in range(100):
    artifacts.save('talk_%05d' % n, b'', metadata={'k': 'x' * 60_000})
for n in range(20):
    skills.create('talk_%05d' % n, 'async def run(a=%r): pass' % ('x' * 200_000))`;
  const { json } = await server.call(`POST /v1/sessions/${id}/execute`, { body: { code }, token });
  expect(json).toMatchObject({ status: 'ok' });
  for (const [kind, count] of [
    ['artifacts', 100],
    ['skills', 20],
  ] as const) {
    const names: string[] = [];
    for (let after: string | undefined = ''; after !== undefined; ) {
      const response = await server.fetch(`GET /v1/${kind}?after=${after}`, { token });
      const text = await response.text();
      expect(text.length).toBeLessThan(4_000_000);
      const page: Answer = JSON.parse(text);
      names.push(...(page[kind] ?? []).map((one) => one.name));
      after = page.next;
    }
    // Besides the operator's skills, which are for all.
    expect(names.filter((one) => one.startsWith('talk_'))).toEqual(talks(count));
  }
  const found = await server.fetch('GET /v1/skills?q=talk&limit=100', { token });
  expect((await found.text()).length).toBeLessThan(4_000_000);
  await using own = await connect({ url: server.url, token });
  expect((await own.artifacts.list({ limit: 90 })).map((one) => one.name)).toEqual(talks(90));
  expect((await own.artifacts.list()).map((one) => one.name)).toEqual(talks(100));
});

it('more than the operator allows per user are refused, with the name of the setting', async () => {
  // Read when a session first needs it.
  vi.stubEnv('CELLA_MAX_SKILLS', '2');
  vi.stubEnv('CELLA_MAX_ARTIFACTS', '1');
  onTestFinished(() => void vi.unstubAllEnvs());
  const token = await server.user('few', 'member');
  const { id } = await server.session({ agentKey: 'few' }, token);
  const run = async (code: string) =>
    (await server.call(`POST /v1/sessions/${id}/execute`, { body: { code }, token })).json;
  const skill = (one: string) => `skills.create("${one}", "async def run(): pass")`;
  expect(
    await run(`${skill('one')}; ${skill('two')}; artifacts.save("one", 1); artifacts.save("one", 2)`),
  ).toMatchObject({
    status: 'ok',
  });
  expect(JSON.stringify(await run(skill('three')))).toContain('CELLA_MAX_SKILLS');
  expect(JSON.stringify(await run('artifacts.save("two", 1)'))).toContain('CELLA_MAX_ARTIFACTS');
  const path = `PUT /v1/sessions/${id}/artifacts/two/content`;
  const refused = await server.fetch(path, { body: 'x', token });
  expect([refused.status, await refused.json()]).toMatchObject([
    429,
    { error: { code: 'QUOTA_EXCEEDED', details: { quota: 'artifacts', limit: 1 } } },
  ]);
});
