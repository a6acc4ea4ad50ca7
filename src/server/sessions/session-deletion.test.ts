import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { FileStorage } from '../../storage/file/file-storage.ts';
import { folderName } from '../../storage/validation.ts';
import { OrphanedFiles } from './session-deletion.ts';
import { SessionManager } from './session-manager.ts';

async function opened(): Promise<FileStorage> {
  const path = mkdtempSync(join(tmpdir(), 'cella-leftovers-'));
  const storage = await FileStorage.open(path);
  onTestFinished(async () => {
    await storage.close();
    rmSync(path, { recursive: true, force: true });
  });
  return storage;
}

/** A server with a data folder of its own, on a storage that others share. */
async function server(shared: FileStorage, own: FileStorage, storage = 'the shared one') {
  const leftovers = new OrphanedFiles({ documents: own.documents, dataDir: own.path, storage });
  const host = await SessionManager.open({ storage: shared, dataDir: own.path, leftovers });
  onTestFinished(() => host.close());
  return host;
}

/** As a kernel would leave it: also with folders that lie deeper than a path can tell. */
function leaveFiles({ path }: FileStorage, key: string): void {
  const workspace = join(path, 'agents', folderName(key), 'workspace');
  mkdirSync(workspace, { recursive: true });
  writeFileSync(join(workspace, 'file'), 'x');
  for (let level = 0; level < 30; level++) {
    mkdirSync(join(workspace, 'outer'));
    if (level > 0) renameSync(join(workspace, 'deep'), join(workspace, 'outer', 'x'.repeat(200)));
    renameSync(join(workspace, 'outer'), join(workspace, 'deep'));
  }
}

const agentsIn = ({ path }: FileStorage) => readdirSync(join(path, 'agents')).toSorted();

it('of a session that another server has deleted are removed when this one starts, and no others', async () => {
  const [shared, here, there] = [await opened(), await opened(), await opened()];
  const first = await server(shared, here);
  const keys = ['deleted', 'kept'];
  const [deleted] = await Promise.all(
    keys.map(async (agentKey) => (await first.create('local', { agentKey })).session),
  );
  // The last is of somebody who has used the folder without a server.
  for (const key of [...keys, 'another']) leaveFiles(here, key);
  await first.close();
  const second = await server(shared, there);
  await second.delete(deleted?.id ?? '');
  await second.close();
  expect(agentsIn(here)).toHaveLength(3);
  await (await server(shared, here, 'a storage that knows none of them')).close();
  expect(agentsIn(here)).toHaveLength(3);
  await server(shared, here);
  await vi.waitFor(() => expect(agentsIn(here)).toEqual(['another', 'kept'].map(folderName).toSorted()), 10_000);
});

it('are not visible to a later session with the same key, and stay for the same one', async () => {
  const here = await opened();
  const of = (storage: string) => new OrphanedFiles({ documents: here.documents, dataDir: here.path, storage });
  const [one, other] = [of('one'), of('another')];
  await using lock = await here.locks.acquire('k');
  await one.claim('ses_1', lock);
  leaveFiles(here, 'k');
  await one.claim('ses_1', lock);
  expect(agentsIn(here)).toHaveLength(1);
  await one.claim('ses_2', lock);
  expect(agentsIn(here)).toEqual([]);
  leaveFiles(here, 'k');
  await other.claim('ses_3', lock);
  expect(agentsIn(here)).toHaveLength(1);
});
