/** Forks at the same time as what is done to them and to their parents. */

import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import type { SessionInfo } from '../../../src/protocol/session-info.ts';
import type { SessionManager } from '../../../src/server/sessions/session-manager.ts';
import type { DocumentStore, Storage } from '../../../src/storage/contract.ts';
import { execute } from '../../support/servers/executions.ts';
import { TestServer } from '../../support/servers/server.ts';
import { newPlace, openSessionManager, useRedis } from './session-managers.ts';

const BOB = 'usr_b000000000000000';

useRedis();
let server: TestServer;

beforeAll(async () => {
  server = await TestServer.start();
});

interface Told {
  readonly collection: string;
  readonly id: string;
  readonly value: Partial<SessionInfo> & { readonly life?: string };
}

interface Hooks {
  /** Waited for before a document is written. */
  before?(put: Told): Promise<void> | undefined;
  /** Called when it is written, before whoever writes it knows. */
  after?(put: Told): void;
}

/** Storage whose writers come to a halt at the worst moment. */
function watched(storage: Storage, hooks: Hooks): Storage {
  const put: DocumentStore['put'] = async (collection, id, value, ...more) => {
    const told = { collection, id, value: Object(value) };
    await hooks.before?.(told);
    const revision = await storage.documents.put(collection, id, value, ...more);
    if (revision !== undefined) hooks.after?.(told);
    return revision;
  };
  const documents = new Proxy(storage.documents, { get: (store, name) => (name === 'put' ? put : bound(store, name)) });
  const fenced: Storage['fenced'] = (lock) => watched(storage.fenced(lock), hooks);
  return new Proxy(storage, {
    get: (there, name) => (name === 'documents' ? documents : name === 'fenced' ? fenced : bound(there, name)),
  });
}

const kinds = ['file', 'redis'] as const;

async function managerWith(kind: (typeof kinds)[number], hooks: Hooks): Promise<SessionManager> {
  const place = await newPlace(kind);
  return (await openSessionManager({ ...place, open: async () => watched(await place.open(), hooks) })).manager;
}

async function valueIn(manager: SessionManager, id: string, code: string): Promise<unknown> {
  return (await execute(await manager.open(id), code)).result.value;
}

function bound(target: object, name: string | symbol): unknown {
  const value: unknown = Reflect.get(target, name, target);
  return typeof value === 'function' ? value.bind(target) : value;
}

describe.each(kinds)('with sessions in %s storage', (kind) => {
  it('a fork that is confirmed before its first use has its own sandbox', async () => {
    let confirming: Promise<SessionInfo> | undefined;
    const manager = await managerWith(kind, {
      after: ({ collection, id, value: { life, unconfirmed } }) => {
        if (collection === 'sessions' && life === 'present' && unconfirmed) confirming ??= manager.confirm(id);
      },
    });
    const { session: parent } = await manager.create('local', { agentKey: 'parent' });
    const fork = await manager.fork(parent.id, BOB, { agentKey: 'fork' });
    expect(await confirming).not.toHaveProperty('unconfirmed');
    expect(await manager.get(fork.id)).not.toHaveProperty('unconfirmed');
    const sandboxOf = (id: string) => valueIn(manager, id, '__import__("os").readlink("/proc/self/ns/mnt")');
    expect(await sandboxOf(fork.id)).toMatch(/^mnt:/);
    expect(await sandboxOf(fork.id)).not.toBe(await sandboxOf(parent.id));
  });

  it('a session that is forked while it is being deleted stays, with its files', async () => {
    let forking: Promise<SessionInfo> | undefined;
    const manager = await managerWith(kind, {
      before: async ({ collection, value: { life } }) => {
        if (collection !== 'sessions' || life !== 'deleting' || forking) return;
        forking = manager.fork(parent.id, 'local', { agentKey: 'fork' });
        await forking;
      },
    });
    const { session: parent } = await manager.create('local', { agentKey: 'parent' });
    await valueIn(manager, parent.id, 'open("kept", "w").write("kept")');
    await expect(manager.delete(parent.id)).rejects.toMatchObject({ code: 'SESSION_CONFLICT' });
    const fork = (await forking)?.id ?? '';
    for (const id of [fork, parent.id]) expect(await valueIn(manager, id, 'open("kept").read()')).toBe('kept');
    await manager.delete(fork);
    await manager.delete(parent.id);
    await expect(manager.get(parent.id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('a session that is deleted while it is being forked is gone, and there is no fork', async () => {
    let deleting: Promise<void> | undefined;
    const manager = await managerWith(kind, {
      before: async ({ collection, value: { life } }) => {
        if (collection !== 'sessions' || life !== 'making' || deleting) return;
        deleting = manager.delete(parent.id);
        await deleting;
      },
    });
    const { session: parent } = await manager.create('local', { agentKey: 'parent' });
    await valueIn(manager, parent.id, '1');
    await expect(manager.fork(parent.id, 'local', { agentKey: 'fork' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect((await manager.list({ ownerId: 'local' })).sessions).toEqual([]);
  });
});

it('files of a fork stay if its parent is deleted at the same time', { timeout: 180_000 }, async () => {
  const ended: string[] = [];
  for (let round = 0; round < 60; round++) {
    const { id } = await server.session({ agentKey: `parent ${round}` });
    await server.run(id, 'open("kept", "w").write("kept")');
    const later = Math.floor(round / 4);
    const [forked, deleted] = await Promise.all([
      delay(round % 2 === 0 ? 0 : later).then(() =>
        server.call<SessionInfo>(`POST /v1/sessions/${id}/fork`, { body: { agentKey: `fork ${round}` } }),
      ),
      delay(round % 2 === 0 ? later : 0).then(() => server.call(`DELETE /v1/sessions/${id}`)),
    ]);
    ended.push(`${forked.status} ${deleted.status}`);
    // One of the two, or neither.
    expect([forked.status, deleted.status]).not.toEqual([201, 204]);
    expect([404, 409, 201]).toContain(forked.status);
    if (forked.status === 201) {
      expect(await server.run(forked.json.id, 'open("kept").read()')).toMatchObject({ value: 'kept' });
      expect((await server.call(`DELETE /v1/sessions/${forked.json.id}`)).status).toBe(204);
    }
    if (deleted.status !== 204) expect((await server.call(`DELETE /v1/sessions/${id}`)).status).toBe(204);
  }
  // Both came first at some time, else the rounds show nothing.
  expect(ended).toContain('201 409');
  expect(ended.some((one) => one.endsWith('204'))).toBe(true);
});
