/** A session that is deleted leaves nothing: all that a storage and a data folder hold is as it was before. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { createClient } from '@redis/client';
import { expect, onTestFinished, test } from 'vitest';
import { newPlace, openSessionManager, type Place, useRedis } from './session-managers.ts';

const redis = useRedis();
const OWNER = 'ann~000000000000';

/** Folders that lie deeper than a path can tell. */
const DEEP = `
import os
here = os.getcwd()
for _ in range(30):
    os.mkdir('x' * 200)
    os.chdir('x' * 200)
open('file', 'w').close()
os.chdir(here)`;

import { execute } from '../../support/servers/executions.ts';

/** Every file, but for those that hold rows or locks. */
function filesIn({ dataDir }: Place): string[] {
  const all = readdirSync(dataDir, { recursive: true, withFileTypes: true }).filter((entry) => !entry.isDirectory());
  const paths = all.map(({ parentPath, name }) => join(parentPath, name).slice(dataDir.length + 1));
  return paths.filter((path) => !/^(cella\.db|processes\/)/.test(path)).toSorted();
}

/** Every row, but for numbers that are only counted. */
function rowsIn({ dataDir }: Place): string[] {
  const database = new DatabaseSync(join(dataDir, 'cella.db'), { readOnly: true });
  try {
    const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
    const kept = tables.map(({ name }) => String(name)).filter((name) => !name.startsWith('sqlite_'));
    return kept.flatMap((name) =>
      database
        .prepare(`SELECT * FROM ${name}`)
        .all()
        .map((row) => `${name} ${JSON.stringify(row)}`),
    );
  } finally {
    database.close();
  }
}

async function keysIn(prefix: string): Promise<string[]> {
  const client = createClient({ url: redis().url });
  await client.connect();
  try {
    return (await client.keys('*')).filter((key) => key.startsWith(`${prefix}|`)).toSorted();
  } finally {
    client.destroy();
  }
}

test.each(['file', 'redis'] as const)('nothing of it is left in %s storage', async (kind) => {
  const place = await newPlace(kind);
  const options = { limits: { eventBytes: 1024, inlineBytes: 2048 } };
  const { manager, storage, end } = await openSessionManager(place, options);
  onTestFinished(end);
  const config = storage.toBootstrapConfig();
  const everything = async () => ({
    files: filesIn(place),
    kept: config.type === 'redis' ? await keysIn(config.prefix) : rowsIn(place),
  });
  const use = async (agentKey: string) => {
    const serverSession = await manager.open((await manager.create(OWNER, { agentKey })).session.id);
    await execute(serverSession, "open('f', 'w').write('x'); print('y' * 9000)", { idempotencyKey: 'k' });
    const api = await serverSession.api();
    await api.checkpoint({ name: 'c', durable: true });
    await storage.transcripts.put(`~${OWNER}/${agentKey}`, 'talk', { revision: 1, text: 'said' });
    return serverSession;
  };
  const other = await use('stays');
  await (await other.api()).hibernate();
  const before = await everything();
  const gone = await use('goes');
  const fork = await manager.fork(gone.id, OWNER, { agentKey: 'fork' });
  await execute(await manager.open(fork.id), 'y = 1');
  expect((await everything()).files.length).toBeGreaterThan(before.files.length);
  expect((await execute(gone, DEEP)).result.status).toBe('ok');
  await manager.delete(fork.id);
  await manager.delete(gone.id);
  expect(await everything()).toEqual(before);
  expect((await execute(other, "open('f').read()")).result.value).toBe('x');
});
