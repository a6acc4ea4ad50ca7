/** Saves as large as hostile code can make them: writing, listing and waking them does not stop the event loop for long. */

import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { storageKeyOf } from '../../../src/server/ids.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { INSTEAD_OF_SAVING } from '../../support/kernels/hostile-saves.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { expectNoStall, serverLoop } from '../../support/servers/stalls.ts';
import { Server } from './rows.ts';

const LEGACY = 'an earlier version';
/** What earlier versions took of one save. */
const LEGACY_SEGMENTS = 55_000;

let server: Server;

beforeAll(async () => {
  const dataDir = await scratchFolder();
  await storeAsBefore(dataDir);
  server = await Server.start(dataDir);
}, 120_000);
afterAll(() => server?.end());

const row = (name: string, work: () => Promise<unknown>) =>
  it(name, { timeout: 300_000 }, async () => {
    const stall = await expectNoStall(work, serverLoop(server.url, server.pid));
    console.log(`${name}: longest stall ${stall.toFixed(1)} ms`);
  });

const open = async (agentKey: string = randomUUID()) => {
  const { id } = await server.json<{ id: string }>('POST /v1/sessions', server.token, { agentKey });
  const ask = (what: string, body?: unknown) => {
    const [method = 'GET', path = ''] = what.split(' ');
    return server.discard(method, `/v1/sessions/${id}${path}`, server.token, body);
  };
  return { id, ask, run: (code: string) => ask('POST /execute', { code }) };
};

/** A session whose kernel saves what the hostile code says. */
const hostile = async (parts: string) => {
  const session = await open();
  expect(await session.run(`${INSTEAD_OF_SAVING}\n${parts}\ninstead_of_saving(parts, lost)`)).toBe(200);
  return session;
};

const AS_MUCH_AS_MAY_BE = {
  'as many segments as may be': `
lost = []
def parts():
    for n in range(20_000): yield part(['name%d' % (n // 2)])`,
  'as many names as may be, none of which loads, and as many lost ones': `
lost = [{'name': 'lost%d' % n, 'reason': 'x' * 900} for n in range(100)]
def parts():
    yield part(['name%d' % n for n in range(10_000)])`,
};

describe.each(Object.entries(AS_MUCH_AS_MAY_BE))('%s', (_name, parts) => {
  row('wakes', async () => {
    const { ask, run } = await hostile(parts);
    expect(await ask('POST /hibernate')).toBe(204);
    expect(await run('1')).toBe(200);
    expect(await ask('GET /events?limit=1000')).toBe(200);
  });

  row('is kept 20 times, and listed', async () => {
    const { ask } = await hostile(parts);
    for (let times = 0; times < 20; times += 1) {
      expect(await ask('POST /checkpoints', { name: 'one', durable: true })).toBe(201);
    }
    expect(await ask('GET /checkpoints')).toBe(200);
  });
});

const MORE_THAN_MAY_BE = {
  'more segments than may be': `
lost = []
def parts():
    for n in range(55_000): yield part(['n'])`,
  'more lost names than may be': `
lost = [{'name': 'lost%d' % n, 'reason': 'x' * 900} for n in range(4_000)]
def parts():
    yield part(['name%d' % n for n in range(10_000)])`,
  'a header of a million lists': `
lost = []
def parts():
    head = b'[' + b'[],' * 1_300_000 + b'[]]'
    yield struct.pack('<I', len(head)) + head`,
  'a header of 300,000 keys': `
lost = []
def parts():
    head = json.dumps({'k%d' % n: 0 for n in range(300_000)}).encode()
    yield struct.pack('<I', len(head)) + head`,
};

describe.each(Object.entries(MORE_THAN_MAY_BE))('%s', (_name, parts) => {
  row('is refused', async () => {
    const { ask } = await hostile(parts);
    expect(await ask('POST /save')).toBe(500);
  });
});

describe('a variable of 150 MB', () => {
  row('is saved, and wakes', async () => {
    const { ask, run } = await open();
    expect(await run('x = bytearray(150_000_000)')).toBe(200);
    expect(await ask('POST /hibernate')).toBe(204);
    expect(await run('len(x)')).toBe(200);
  });
});

describe(`data that ${LEGACY} has stored`, () => {
  row('is listed', () => server.discard('GET', `/v1/kernels/${encodeURIComponent(LEGACY)}/checkpoints`, server.token));
  row('wakes', async () => {
    const { ask, run } = await open(LEGACY);
    expect(await run('1')).toBe(200);
    expect(await ask('GET /checkpoints')).toBe(200);
    expect(await ask('DELETE ')).toBe(204);
  });
});

async function storeAsBefore(dataDir: string): Promise<void> {
  await using storage = await FileStorage.open(dataDir);
  const empty = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
  const key = storageKeyOf('local', LEGACY);
  for (const kind of ['save', 'checkpoint', 'checkpoint'] as const) {
    await using writer = await storage.checkpoints.begin(key);
    await writer.finish({
      ...{ format: 1, id: randomUUID(), kind, createdAt: 1, python: '3.11.2', execution: 1, bytes: 0 },
      saved: Array.from({ length: 10_000 }, (_, n) => `name${n}`),
      lost: Array.from({ length: 10_001 }, (_, n) => ({ name: `lost${n}`, reason: 'x'.repeat(900) })),
      segments: Array.from({ length: LEGACY_SEGMENTS }, (_, n) => ({
        ...{ kind: 'pickle', names: [`name${n % 10_000}`], portable: true, bytes: 0, sha256: empty },
      })),
    });
  }
}
