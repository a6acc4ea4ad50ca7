import { createHash } from 'node:crypto';
import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionEventBody } from '../../protocol/session-events.ts';
import type { DocumentPage, DocumentStore } from '../../storage/contract.ts';
import type { OutputFiles } from '../events/output-files.ts';
import { ByteLimit } from '../request-limits.ts';
import { IdempotencyStore } from '../sessions/idempotency.ts';
import { SessionTurns, type SessionTurnsParts } from './session-turns.ts';

/** Documents in memory. `beforeGet` is awaited before each read. */
function memory(beforeGet: () => Promise<void> = async () => {}) {
  const kept = new Map<string, unknown>();
  const documents: DocumentStore = {
    get: async (_collection, id) => {
      await beforeGet();
      return kept.has(id) ? { id, revision: 1, value: kept.get(id) } : undefined;
    },
    put: async (_collection, id, value) => {
      kept.set(id, value);
      return 1;
    },
    delete: async (_collection, id) => kept.delete(id),
    count: async () => kept.size,
    list: async (): Promise<DocumentPage> => {
      const page = [...kept].map(([id, value]) => ({ id, revision: 1, value }));
      return { documents: page, damaged: [] };
    },
  };
  return { kept, documents };
}

/** The turns of a session whose agent answers at once. */
function turnsOn(
  documents: DocumentStore,
  write: (event: SessionEventBody) => Promise<number>,
  work: () => Promise<void> = async () => {},
) {
  const run = async () => {
    await work();
    return { status: 'completed' };
  };
  const id = 'ses_0000000000000001';
  const parts = {
    session: { id, info: async () => ({}), requireConfirmed: () => {} },
    key: 'a',
    storage: { documents, transcripts: {} },
    requests: new IdempotencyStore(documents, {} as OutputFiles, id, { maxAgeMs: 60_000, maxCount: 10 }),
    permissions: { cancelOf: async () => {}, cancelOrphaned: async () => {} },
    writer: { write, full: false },
    outputs: {},
    bounds: { eventBytes: 1000, fileBytes: 1000 },
    definition: { settings: { queueLimit: 10 } },
    draining: () => false,
    queuedBytes: new ByteLimit(1_000_000),
    agents: { checkCanRun: async () => {}, run, stop: async () => {}, prestart: async () => false },
    onEnded: () => {},
  } as unknown as SessionTurnsParts;
  return new SessionTurns(parts);
}

test('of two concurrent prompts with one key, one runs, however long storage takes for the other', async () => {
  const over = Promise.withResolvers<void>();
  let reads = 0;
  const { documents, kept } = memory(async () => {
    if (++reads === 2) await over.promise;
  });
  const turns = turnsOn(documents, async () => 1);
  const request = { prompt: 'hello', by: 'local', agent: 'claude', idempotencyKey: 'once' } as const;
  const both = [turns.prompt(request), turns.prompt(request)];
  await Promise.race(both.map(async (one) => (await one).ended));
  over.resolve();
  const [first, second] = await Promise.all(both);
  expect([first?.replayed, second?.replayed].sort()).toEqual([false, true]);
  expect(second?.turn).toBe(first?.turn);
  await turns.idle();
  expect([...kept.keys()].filter((id) => id.includes('/trn_'))).toHaveLength(1);
});

test('a retry after the turn has ended returns that turn; the same key with another prompt is a conflict', async () => {
  const { documents, kept } = memory();
  const request = { prompt: 'hello', by: 'local', agent: 'claude', idempotencyKey: 'once' } as const;
  const turns = turnsOn(documents, async () => 1);
  const { turn, ended } = await turns.prompt(request);
  await ended;
  await turns.idle();
  // Another server that finds the session in storage.
  const next = turnsOn(documents, async () => 1);
  const again = await next.prompt(request);
  expect(again).toMatchObject({ turn, replayed: true, info: { status: 'completed' } });
  await expect(next.prompt({ ...request, prompt: 'other' })).rejects.toMatchObject({ code: 'IDEMPOTENCY_CONFLICT' });
  expect([...kept.keys()].filter((id) => id.includes('/trn_'))).toHaveLength(1);
});

test('a retry after an upgrade gets its turn, and prompts with other tools are other requests', async () => {
  const { documents, kept } = memory();
  const request = { prompt: 'hello', by: 'local', agent: 'claude', idempotencyKey: 'once' } as const;
  const turns = turnsOn(documents, async () => 1);
  const { turn, ended } = await turns.prompt(request);
  await ended;
  await turns.idle();
  const [id = '', record] = [...kept].find(([, value]) => 'asked' in Object(value)) ?? [];
  // Written before prompts had tools: prompt, agent, mode, model, timeoutMs, profile.
  const asked = createHash('sha256').update('["hello","claude",null,null,null,null]').digest('hex');
  kept.set(id, { ...Object(record), asked });
  const next = turnsOn(documents, async () => 1);
  expect(await next.prompt(request)).toMatchObject({ turn, replayed: true });
  const conflict = { code: 'IDEMPOTENCY_CONFLICT' };
  await expect(next.prompt({ ...request, tools: ['Read'] })).rejects.toMatchObject(conflict);
  await expect(next.prompt({ ...request, tools: [] })).rejects.toMatchObject(conflict);
});

test('a turn whose start cannot be stored has failed, and is not listed as running', async () => {
  const { documents, kept } = memory();
  const told: SessionEventBody[] = [];
  const turns = turnsOn(documents, async (event) => {
    if (event.type === 'turn_started') throw new CellaError('STORAGE_FAILED', 'The disk is full.');
    return told.push(event);
  });
  const { turn, ended } = await turns.prompt({ prompt: 'hello', by: 'local', agent: 'claude' });
  await expect(ended).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  await turns.idle();
  expect(kept.get(`ses_0000000000000001/${turn}`)).toMatchObject({
    status: 'failed',
    error: { code: 'STORAGE_FAILED' },
  });
  expect(told).toMatchObject([{ type: 'turn_ended', turn, status: 'failed' }]);
});

test('the listener on a caller’s signal is removed with the turn', async () => {
  const turns = turnsOn(memory().documents, async () => 1);
  const { signal } = new AbortController();
  const { ended } = await turns.prompt({ prompt: 'hello', by: 'local', agent: 'claude', signal });
  await ended;
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});

test('a waiting prompt says how many are before it and which one runs, in its log and on request', async () => {
  const told: SessionEventBody[] = [];
  const may = Promise.withResolvers<void>();
  const turns = turnsOn(
    memory().documents,
    async (event) => told.push(event),
    async () => await may.promise,
  );
  const request = { prompt: 'hello', by: 'local', agent: 'claude' } as const;
  const first = await turns.prompt(request);
  await first.started;
  const second = await turns.prompt(request);
  const third = await turns.prompt(request);
  const queued = { type: 'turn_queued', running: first.turn };
  expect(told.filter(({ type }) => type === 'turn_queued')).toEqual([
    { ...queued, turn: second.turn, ahead: 1 },
    { ...queued, turn: third.turn, ahead: 2 },
  ]);
  expect([second, third].map(({ info }) => info.ahead)).toEqual([1, 2]);
  await turns.stop({ turn: second.turn });
  expect((await turns.get(third.turn)).ahead).toBe(1);
  may.resolve();
  await third.ended;
  expect(await turns.get(third.turn)).not.toHaveProperty('ahead');
});
