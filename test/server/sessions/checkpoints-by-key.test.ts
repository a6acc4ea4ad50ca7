/** Durable checkpoints belong to an agent key: they are read and deleted without a session and without a kernel. */

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Client, connect } from '../../../src/client/index.ts';
import type { AuditRecord } from '../../../src/protocol/access-models.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { save } from '../../contract/storage/samples.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { checkpointFolder, readManifest, writeManifest } from '../../support/kernels/state.ts';
import { TestServer } from '../../support/servers/server.ts';

let server: TestServer;
let client: Client;
beforeAll(async () => {
  server = await TestServer.start();
  client = await connect({ url: server.url, token: server.token });
});

async function hibernatedWith(as: Client, agentKey: string, ...names: string[]) {
  await using session = await as.open({ agentKey });
  await session.run('x = 1');
  const made = [];
  for (const name of names) made.push(await session.checkpoint({ name, durable: true }));
  await session.hibernate();
  return { id: session.id, made };
}

/** With as many checkpoints as may be, each with as much to tell as may be. */
async function filled(agentKey: string): Promise<string> {
  const dataDir = await scratchFolder();
  await using storage = await FileStorage.open(dataDir);
  const lost = Array.from({ length: 100 }, (_, n) => ({ name: `lost${n}`, reason: 'x'.repeat(50) }));
  await save(storage, agentKey, 'id-0', [], { name: 'kept 0', lost });
  const folder = checkpointFolder(dataDir, agentKey);
  const content = readManifest(join(folder, 'id-0'));
  for (let number = 1; number < 1000; number += 1) {
    const named = { id: `id-${number}`, name: `kept ${number}`, sequence: number + 1 };
    mkdirSync(join(folder, named.id));
    writeManifest(join(folder, named.id), { ...content, ...named });
  }
  return dataDir;
}

const pathOf = (agentKey: string, more = '') => `/v1/kernels/${encodeURIComponent(agentKey)}/checkpoints${more}`;

describe('checkpoints of an agent key', () => {
  it('are listed, shown by id or name, and deleted, without resuming the kernel', async () => {
    const agentKey = 'team/größe 1';
    const { id, made } = await hibernatedWith(client, agentKey, 'before', 'twice', 'twice');
    const [before, first, second] = made;
    const all = await client.checkpoints.list(agentKey);
    expect(all.filter(({ automatic }) => !automatic)).toEqual(made);
    expect(all.every(({ kind }) => kind === 'durable')).toBe(true);
    expect(await client.checkpoints.get(agentKey, 'before')).toEqual(before);
    expect(await client.checkpoints.get(agentKey, first?.id ?? '')).toEqual(first);
    expect(await client.checkpoints.get(agentKey, 'twice')).toEqual(second);
    await client.checkpoints.delete(agentKey, 'twice');
    expect(await client.checkpoints.get(agentKey, 'twice')).toEqual(first);
    await client.checkpoints.delete(agentKey, 'twice');
    for (const gone of [
      () => client.checkpoints.get(agentKey, 'twice'),
      () => client.checkpoints.delete(agentKey, 'twice'),
      () => client.checkpoints.delete(agentKey, '../x'),
      () => client.checkpoints.get('no such key', 'before'),
    ]) {
      await expect(gone()).rejects.toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' });
    }
    expect(await client.checkpoints.list('no such key')).toEqual([]);
    expect((await client.sessions.get(id)).state).toBe('hibernated');
    await using session = await client.session(id);
    await session.restore('before');
    expect((await session.run('x')).value).toBe(1);
  });

  it('come in pages, even if the last item of a page, or the first of the next, is deleted meanwhile', async () => {
    await hibernatedWith(client, 'pages', 'a', 'b', 'c', 'd');
    const ids = (await client.checkpoints.list('pages')).map(({ id }) => id);
    type Page = { checkpoints: { id: string }[]; next?: string };
    const pageAt = async (query: string) => (await server.call<Page>(`GET ${pathOf('pages', query)}`)).json;
    const read: string[] = [];
    for (let page = await pageAt('?limit=2'); ; page = await pageAt(`?limit=2&after=${page.next}`)) {
      read.push(...page.checkpoints.map(({ id }) => id));
      if (page.next === undefined) break;
    }
    expect(read).toEqual(ids);
    const { checkpoints, next } = await pageAt('?limit=2');
    await client.checkpoints.delete('pages', checkpoints.at(-1)?.id ?? '');
    expect((await pageAt(`?after=${next}`)).checkpoints.map(({ id }) => id)).toEqual(ids.slice(2));
    const { next: later } = await pageAt('?limit=1');
    await client.checkpoints.delete('pages', ids[2] ?? '');
    expect((await pageAt(`?after=${later}`)).checkpoints.map(({ id }) => id)).toEqual(ids.slice(3));
    for (const wrong of ['?limit=0', '?limit=x', '?after=x', '?more=1']) {
      expect((await server.call(`GET ${pathOf('pages', wrong)}`)).status).toBe(400);
    }
  });

  it('end a page early if they have much metadata, and a page has at most a thousand', async () => {
    const agentKey = 'full';
    await using own = await TestServer.start({ dataDir: await filled(agentKey) });
    await using reader = await connect({ url: own.url, token: own.token });
    const { json } = await own.call<{ checkpoints: object[]; next?: string }>(`GET ${pathOf(agentKey, '?limit=1000')}`);
    expect(json.next).toEqual(expect.any(String));
    expect(JSON.stringify(json).length).toBeLessThan(2_200_000);
    expect(await reader.checkpoints.list(agentKey)).toHaveLength(1000);
    await using session = await reader.open({ agentKey });
    await session.run('x = 1');
    const one = { name: 'one too many', durable: true };
    await expect(session.checkpoint(one)).rejects.toMatchObject({
      code: 'TOO_MANY_CHECKPOINTS',
      details: { limit: 1000 },
    });
    await reader.checkpoints.delete(agentKey, 'kept 7');
    expect(await session.checkpoint(one)).toMatchObject({ saved: ['x'] });
    expect((await session.checkpoints()).filter(({ automatic }) => !automatic)).toHaveLength(1000);
    await expect(session.checkpoint(one)).rejects.toMatchObject({ code: 'TOO_MANY_CHECKPOINTS' });
  });

  it('belong only to the user, also for the administrator whose keys are stored unchanged', async () => {
    await using ada = await connect({ url: server.url, token: await server.user('ada', 'member') });
    await hibernatedWith(ada, 'own', 'hers');
    await hibernatedWith(client, 'mine', 'of local');
    const inStorage = `~${ada.me.userId}/own`;
    for (const key of ['own', inStorage]) {
      expect(await client.checkpoints.list(key)).toEqual([]);
      for (const act of ['get', 'delete'] as const) {
        await expect(client.checkpoints[act](key, 'hers')).rejects.toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' });
      }
    }
    for (const key of ['mine', '~local/mine', `${inStorage}`]) expect(await ada.checkpoints.list(key)).toEqual([]);
    expect(await ada.checkpoints.get('own', 'hers')).toMatchObject({ name: 'hers' });
  });

  it('need the scopes view and use, and a deletion is in the audit log', async () => {
    await hibernatedWith(client, 'audited', 'kept');
    const viewer = await server.user('vera', 'viewer');
    expect((await server.call(`GET ${pathOf('audited')}`, { token: viewer })).json).toEqual({ checkpoints: [] });
    expect((await server.call(`DELETE ${pathOf('audited', '/kept')}`, { token: viewer })).status).toBe(403);
    expect((await server.call(`DELETE ${pathOf('audited', '/kept')}`)).status).toBe(204);
    const { json } = await server.call<{ entries: AuditRecord[] }>('GET /v1/audit?limit=1000');
    expect(json.entries).toContainEqual(
      expect.objectContaining({ action: 'kernel.delete-checkpoint', target: 'audited/kept', outcome: 'ok' }),
    );
  });
});
