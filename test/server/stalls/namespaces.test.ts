/** Nothing that a user keeps stops the event loop when code lists it: artifacts and skills, also those of older servers, and what tools give. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openAccess } from '../../../src/server/access/access-control.ts';
import { FileStorage } from '../../../src/storage/file/storage.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { expectNoStall, serverLoop } from '../../support/servers/stalls.ts';
import { Server } from './rows.ts';

const ARTIFACTS = 200;
const OLD_KEYS = 4500;
const OLD_SKILLS = [1000, 10_000, 20_000, 35_000];

let server: Server;
let token: string;
let session: string;

beforeAll(async () => {
  const dataDir = await scratchFolder();
  token = await fillAsOlderServers(dataDir);
  server = await Server.start(dataDir);
  session = (await server.json<{ id: string }>('POST /v1/sessions', token, { agentKey: 'things' })).id;
  await run('1');
}, 300_000);
afterAll(() => server?.end());

/** They knew no limit on the parts of metadata, and none on parameters. */
async function fillAsOlderServers(dataDir: string): Promise<string> {
  await using storage = await FileStorage.open(dataDir);
  await using access = await openAccess({ storage, dataDir, rates: { burst: 1, perSecond: 1 } });
  const by = access.localAdmin();
  const ann = await access.users.create(by, { name: 'ann' });
  const scope = storage.scope(ann.id);
  const metadata = Object.fromEntries(Array.from({ length: OLD_KEYS }, (_, number) => [`key${number}`, number]));
  for (let number = 0; number < ARTIFACTS; number += 1) {
    const writer = await scope.artifacts.begin(`old-${String(number).padStart(3, '0')}`);
    await writer.write(Buffer.from('x'));
    await writer.finish({ type: 'bytes', mediaType: 'text/plain', description: '', metadata });
  }
  for (const count of OLD_SKILLS) {
    const names = Array.from({ length: count }, (_, number) => `a${number}`);
    await scope.skills.put(`old_${count}`, `async def run(${names.join(',')}):\n    "text"\n    return ${count}\n`);
  }
  return (await access.tokens.create(by, { name: 'test', user: 'ann' })).token;
}

interface Ran {
  readonly status: string;
  readonly value?: unknown;
}

const run = (code: string, at = session, as = token) =>
  server.json<Ran>(`POST /v1/sessions/${at}/execute`, as, { code });
const row = (name: string, work: () => Promise<unknown>) =>
  it(name, { timeout: 300_000 }, async () => {
    const stall = await expectNoStall(work, serverLoop(server.url, server.pid));
    console.log(`${name}: longest stall ${stall.toFixed(1)} ms`);
  });
const runs = async (code: string, value: unknown) => expect(await run(code)).toMatchObject({ status: 'ok', value });
const get = async (path: string) =>
  expect(await server.discard('GET', `/v1/sessions/${session}${path}`, token), path).toBe(200);

describe('artifacts with more metadata than may be saved today', () => {
  row('are listed by code, all of them', () =>
    runs('all = artifacts.list()\n[len(all), sum(len(one["metadata"]) for one in all)]', [
      ARTIFACTS,
      ARTIFACTS * OLD_KEYS,
    ]),
  );
  row('are listed over HTTP', () => get('/artifacts'));
});

describe('skills with more parameters than may be kept today', () => {
  row('are listed by code', () => runs('len(skills.list())', OLD_SKILLS.length));
  row('are found by code', () => runs('len(skills.search("text", limit=20))', OLD_SKILLS.length));
  row('are listed over HTTP', () => get('/skills'));
  row('are called', () => runs('skills.old_10000(*range(10_000))', 10_000));
});

describe('things at their limits', () => {
  row('are saved: artifacts with as many keys as may be', () =>
    runs(
      'for n in range(30): artifacts.save("new-%d" % n, b"", metadata={"k%d" % key: key for key in range(1000)})\n1',
      1,
    ),
  );
  row('are refused: metadata with as many parts as travel', () =>
    runs(
      'try: artifacts.save("x", b"", metadata={"k": list(range(49_000))})\nexcept ValueError as error: told = error.code\ntold',
      'ARTIFACT_INVALID',
    ),
  );
  row('are refused: skills with more parameters than may be', () =>
    runs(
      'try: skills.create("x", "async def run(%s): pass" % ",".join("a%d" % n for n in range(35_000)))\nexcept ValueError as error: told = error.code\ntold',
      'SKILL_INVALID',
    ),
  );
});

describe('what a tool gives', () => {
  let own: string;
  const programs = {
    empty_lists: `print('[' + '[],' * 340_000 + '[]]')`,
    many_keys: `print('{' + ','.join('"%d":0' % n for n in range(95_000)) + '}')`,
    surrogates: `print('["' + '\\\\udc80' * 170_000 + '"]')`,
    long_numbers: `print('[' + '99999999999999999999,' * 45_000 + '0]')`,
  };
  beforeAll(async () => {
    own = (await server.json<{ id: string }>('POST /v1/sessions', server.token, { agentKey: 'tools' })).id;
    for (const [name, program] of Object.entries(programs)) {
      const yaml = JSON.stringify({ name, type: 'cli', command: ['python3', '-c', program], result: 'json' });
      await server.json(`POST /v1/sessions/${own}/tools`, server.token, { yaml });
    }
  });
  for (const name of Object.keys(programs)) {
    row(`${name}, to code`, async () =>
      expect(await run(`value = tools.${name}()\n1`, own, server.token)).toMatchObject({ status: 'ok' }),
    );
    row(`${name}, to a caller over HTTP`, async () => {
      const status = await server.discard('POST', `/v1/sessions/${own}/tools/${name}/call`, server.token, {});
      expect(status).toBe(200);
    });
  }
});
