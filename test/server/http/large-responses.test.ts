/** Much is kept, and asked for many times at once: making the answers takes a bounded part of the server's memory. */

import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openAccess } from '../../../src/server/access/access-control.ts';
import { storageKeyOf } from '../../../src/server/ids.ts';
import { newDefinition, SessionDefinitions } from '../../../src/server/sessions/session-definitions.ts';
import { AgentProfiles } from '../../../src/server/turns/agent-profiles.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { recordOf } from '../../contract/storage/samples.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { Server } from '../stalls/rows.ts';

const MEGABYTE = 1024 * 1024;
const TURN = 'trn_1111111111111111';
const AT_ONCE = 12;
const MOST_GROWTH_MB = 500;

let server: Server;
let token: string;
let session: string;

beforeAll(async () => {
  const dataDir = await scratchFolder();
  ({ token, session } = await fill(dataDir));
  server = await Server.start(dataDir);
}, 120_000);
afterAll(() => server?.end());

/** A conversation of some 48 MB, profiles of 40 MB, and 200 sessions with some 64 MB of code in their histories. */
async function fill(dataDir: string) {
  await using storage = await FileStorage.open(dataDir);
  await using access = await openAccess({ storage, dataDir, rates: { burst: 1, perSecond: 1 } });
  const ann = await access.users.create(access.localAdmin(), { name: 'ann' });
  const definition = newDefinition(ann.id, { agentKey: 'talk' });
  await new SessionDefinitions(storage.documents).add(definition);
  const log = storageKeyOf(ann.id, 'talk');
  await storage.events.append(log, [
    { type: 'turn_started', turn: TURN, agent: 'claude', mode: 'ask', prompt: 'x', by: ann.id },
  ]);
  const text = 'x'.repeat(MEGABYTE / 4 - 1000);
  for (let at = 0; at < 192; at++) {
    const item = { turn: TURN, item: `i${at}`, kind: 'message', status: 'completed' };
    await storage.events.append(log, [{ type: 'item_completed', ...item, text }], { flushed: false });
  }
  await storage.events.append(log, [{ type: 'turn_ended', turn: TURN, status: 'completed' }]);
  const history = [{ execution: 1, code: `#${'\u03a9'.repeat(MEGABYTE / 6)}`, status: 'ok' as const }];
  for (let at = 0; at < 200; at++) {
    const key = storageKeyOf(ann.id, `k${at}`);
    await storage.records.put(key, recordOf(key, { history }));
  }
  const profiles = new AgentProfiles(storage.documents);
  for (let at = 0; at < 50; at++) await profiles.put(ann.id, `p${at}`, { systemPrompt: 'x'.repeat(800_000) });
  const made = await access.tokens.create(access.localAdmin(), { name: 'test', user: 'ann' });
  return { token: made.token, session: definition.id };
}

const memoryMb = (what: 'RSS' | 'HWM') =>
  Number(new RegExp(`^Vm${what}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1]) /
  1024;

it.each([
  ['kernels of long histories', () => '/v1/kernels'],
  ['large profiles', () => '/v1/profiles'],
  ['a long conversation', () => `/v1/sessions/${session}/conversation`],
])('%s', { timeout: 300_000 }, async (_what, path) => {
  const ask = () => server.discard('GET', path(), token);
  // Forgets the peak of earlier tests.
  writeFileSync(`/proc/${server.pid}/clear_refs`, '5');
  const before = memoryMb('RSS');
  expect(await Promise.all(Array.from({ length: AT_ONCE }, ask))).toEqual(Array(AT_ONCE).fill(200));
  console.log('growth', memoryMb('HWM') - before);
  expect(memoryMb('HWM') - before).toBeLessThan(MOST_GROWTH_MB);
});
