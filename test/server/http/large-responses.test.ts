/** Much is kept, and asked for many times at once: making the answers takes a bounded part of the server's memory. */

import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ExecutionResult } from '../../../src/protocol/execution-events.ts';
import { openAccess } from '../../../src/server/access/access-control.ts';
import { OutputFiles } from '../../../src/server/events/output-files.ts';
import { storageKeyOf } from '../../../src/server/ids.ts';
import { fingerprint, IdempotencyStore } from '../../../src/server/sessions/idempotency.ts';
import { newDefinition, SessionDefinitions } from '../../../src/server/sessions/session-definitions.ts';
import { AgentProfiles } from '../../../src/server/turns/agent-profiles.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { recordOf } from '../../contract/storage/samples.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { Server } from '../stalls/rows.ts';

const MEGABYTE = 1024 * 1024;
const TURN = 'trn_1111111111111111';
const AT_ONCE = 12;
const CODE = 'print_many_lines()';
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

/** A conversation of some 48 MB, profiles of 40 MB, results of 32 MB, and 200 sessions with some 64 MB of code in their histories. */
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
  const outputs = new OutputFiles(dataDir, definition.id);
  const requests = new IdempotencyStore(storage.documents, outputs, definition.id, { maxAgeMs: 1e9, maxCount: 10 });
  const asked = fingerprint(CODE, undefined, undefined, undefined);
  const lines = '\n'.repeat(16 * MEGABYTE);
  const result: ExecutionResult = { status: 'ok', number: 1, durationMs: 1, stdout: lines, stderr: '', displays: [] };
  for (let at = 0; at < 3; at++) {
    const request = { execution: `exe_000000000000000${at}`, asked, at: Date.now(), firstSeq: 1 };
    await requests.finish(fingerprint(`${at}`).slice(0, 32), request, result);
  }
  const profiles = new AgentProfiles(storage.documents);
  for (let at = 0; at < 50; at++) await profiles.put(ann.id, `p${at}`, { systemPrompt: 'x'.repeat(800_000) });
  const made = await access.tokens.create(access.localAdmin(), { name: 'test', user: 'ann' });
  return { token: made.token, session: definition.id };
}

/** A retry of one of three executions that have ended. */
async function executeAgain(at: number): Promise<number> {
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    'idempotency-key': `${at % 3}`,
  };
  const body = JSON.stringify({ code: CODE });
  const response = await fetch(`${server.url}/v1/sessions/${session}/execute`, { method: 'POST', headers, body });
  for await (const _chunk of response.body ?? []);
  return response.status;
}

const memoryMb = (what: 'RSS' | 'HWM') =>
  Number(new RegExp(`^Vm${what}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1]) /
  1024;

const get = (path: string) => server.discard('GET', path, token);

it.each([
  ['kernels of long histories', () => get('/v1/kernels')],
  ['large profiles', () => get('/v1/profiles')],
  ['a long conversation', () => get(`/v1/sessions/${session}/conversation`)],
  ['large results, again', executeAgain],
])('%s', { timeout: 300_000 }, async (_what, ask) => {
  // Forgets the peak of earlier tests.
  writeFileSync(`/proc/${server.pid}/clear_refs`, '5');
  const before = memoryMb('RSS');
  expect(await Promise.all(Array.from({ length: AT_ONCE }, (_, at) => ask(at)))).toEqual(Array(AT_ONCE).fill(200));
  expect(memoryMb('HWM') - before).toBeLessThan(MOST_GROWTH_MB);
});
