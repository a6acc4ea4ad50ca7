/** Files of a storage that were cut, changed, removed or written by a newer version. */

import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import type { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { folderName } from '../../../src/storage/validation.ts';
import { collect, failureOf, idsOf, manifestOf, recordOf, save } from '../../contract/storage/samples.ts';
import { openStorage, scratch } from './child-processes.ts';

const CHUNK = 8 * 1024 * 1024;
/** The second begins in the first chunk and ends in the second one. */
const segments = [randomBytes(CHUNK - 10), randomBytes(20), randomBytes(500)];

async function saved(): Promise<{ storage: FileStorage; folder: string; path: string }> {
  const path = scratch();
  const storage = await openStorage(path);
  await save(storage, 'a', 'one', segments);
  await save(storage, 'a', 'two');
  return { storage, path, folder: join(path, 'checkpoints', folderName('a'), 'one') };
}

/** Which segments came back. Those that do are what was written, read by their number or in order. */
async function readable({ checkpoints }: FileStorage): Promise<boolean[]> {
  const manifest = manifestOf('one', segments);
  const found = await Promise.all(segments.map((_, index) => checkpoints.read('a', manifest, index)));
  const inOrder: (Uint8Array | undefined)[] = [];
  for await (const bytes of checkpoints.segments('a', manifest)) inOrder.push(bytes);
  expect(found.map(isWritten)).not.toContain(false);
  expect(inOrder.map(isWritten)).toEqual(found.map(isWritten));
  return found.map((bytes) => bytes !== undefined);
}

/** Undefined where nothing came back. Megabytes are compared here: `toEqual` would look at each byte by itself. */
function isWritten(bytes: Uint8Array | undefined, index: number): boolean | undefined {
  return bytes && Buffer.compare(bytes, segments[index] ?? Buffer.alloc(0)) === 0;
}

async function flip(file: string, at: number): Promise<void> {
  const bytes = await readFile(file);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  await writeFile(file, bytes);
}

describe('a checkpoint', () => {
  const damages: [string, (folder: string) => Promise<void>, boolean[]][] = [
    ['that is whole', async () => {}, [true, true, true]],
    ['with a cut chunk', (folder) => truncate(join(folder, '0001.chunk'), 100), [true, true, false]],
    ['with an empty chunk', (folder) => truncate(join(folder, '0000.chunk'), 0), [false, false, true]],
    ['with a flipped byte', (folder) => flip(join(folder, '0000.chunk'), 5), [false, true, true]],
    ['with a missing chunk', (folder) => rm(join(folder, '0000.chunk')), [false, false, true]],
    [
      'with a chunk too long',
      (folder) => writeFile(join(folder, '0001.chunk'), 'x', { flag: 'a' }),
      [true, true, true],
    ],
    [
      'with a folder in place of a chunk',
      async (folder) => {
        await rm(join(folder, '0001.chunk'));
        await mkdir(join(folder, '0001.chunk'));
      },
      [true, false, false],
    ],
    ['that is gone', (folder) => rm(folder, { recursive: true }), [false, false, false]],
  ];

  it.each(damages)('%s returns the intact segments', async (_name, damage, expected) => {
    const { storage, folder } = await saved();
    await damage(folder);
    expect(await readable(storage)).toEqual(expected);
    expect(await idsOf(storage, 'a')).toEqual(existsSync(folder) ? ['one', 'two'] : ['two']);
  });

  it('whose manifest claims more than fits in memory reads as missing', async () => {
    const { storage } = await saved();
    const manifest = manifestOf('one', segments);
    for (const bytes of [2 ** 31, 2 ** 40, Number.MAX_SAFE_INTEGER]) {
      const huge = { ...manifest, segments: manifest.segments.map((segment) => ({ ...segment, bytes })) };
      expect(await storage.checkpoints.read('a', huge, 0)).toBeUndefined();
    }
  });

  const manifests: [string, (file: string) => Promise<void>, RegExp][] = [
    ['garbage', (file) => writeFile(file, randomBytes(300)), /not JSON/],
    ['empty', (file) => truncate(file, 0), /not JSON/],
    ['cut', async (file) => truncate(file, (await stat(file)).size - 20), /not JSON/],
    ['not an object', (file) => writeFile(file, 'null'), /not an object/],
    ['of a newer format', (file) => writeFile(file, '{"format":3,"id":"one"}'), /format 3.*newer/],
    ['changed', async (file) => writeFile(file, (await readFile(file, 'utf8')).replace('3.11', '3.12')), /checksum/],
    ['another checkpoint’s', (file) => cp(join(file, '../../two/manifest.json'), file), /that of two/],
    ['missing', (file) => rm(file), /missing/],
    [
      'a folder',
      (file) =>
        rm(file)
          .then(() => mkdir(file))
          .then(() => {}),
      /cannot be read/,
    ],
    ['a gigabyte', (file) => truncate(file, 2 ** 30), /bytes/],
  ];

  it.each(manifests)(
    'whose manifest is %s is left out, reported, and can be deleted',
    async (_name, damage, reason) => {
      const { storage, folder } = await saved();
      await damage(join(folder, 'manifest.json'));
      expect(await idsOf(storage, 'a')).toEqual(['two']);
      expect(await storage.checkpoints.get('a', 'one')).toBeUndefined();
      expect(await storage.checkpoints.damaged('a')).toEqual([{ id: 'one', reason: expect.stringMatching(reason) }]);
      // Those that come after it still have their place.
      await save(storage, 'a', 'three');
      expect(await idsOf(storage, 'a')).toEqual(['two', 'three']);
      expect(await storage.checkpoints.delete('a', 'one')).toBe(true);
      expect(await storage.checkpoints.damaged('a')).toEqual([]);
    },
  );

  it('with any byte of its manifest flipped is reported as damaged', async () => {
    const { storage, folder } = await saved();
    const file = join(folder, 'manifest.json');
    const { size } = await stat(file);
    // The last one is the end of the line.
    for (let at = 0; at < size - 1; at += 7) {
      await flip(file, at);
      expect(await storage.checkpoints.damaged('a'), `byte ${at}`).toHaveLength(1);
      await flip(file, at);
    }
    expect(await storage.checkpoints.damaged('a')).toEqual([]);
  });

  it('with an id that is not a folder name is deleted by the id from `damaged`', async () => {
    const { storage, path } = await saved();
    await save(storage, 'b', '../x');
    const [name = ''] = await readdir(join(path, 'checkpoints', folderName('b')));
    await rm(join(path, 'checkpoints', folderName('b'), name, 'manifest.json'));
    const [damaged] = await storage.checkpoints.damaged('b');
    expect(await storage.checkpoints.delete('b', damaged?.id ?? '')).toBe(true);
    expect(await storage.checkpoints.damaged('b')).toEqual([]);
  });

  it('is not affected by foreign files', async () => {
    const { storage, folder } = await saved();
    await writeFile(join(folder, '..', '.DS_Store'), 'x');
    await writeFile(join(folder, '..', 'notes.txt'), 'x');
    expect(await idsOf(storage, 'a')).toEqual(['one', 'two']);
    expect(await storage.checkpoints.damaged('a')).toEqual([]);
  });
});

describe('the database', () => {
  async function closed(): Promise<{ path: string; file: string }> {
    const { storage, path } = await saved();
    await storage.records.put('a', recordOf('a'));
    await storage.events.append('a', ['x'.repeat(100_000)]);
    await storage.close();
    return { path, file: join(path, 'cella.db') };
  }

  it.each([
    ['garbage', (file: string) => writeFile(file, randomBytes(20_000))],
    ['a text', (file: string) => writeFile(file, 'hello')],
    ['cut', (file: string) => truncate(file, 5000)],
    ['overwritten', (file: string) => writeFile(file, readFileSync(file).fill(0xff, 100))],
  ])('that is %s is told with what to do, and takes no checkpoint along', async (_name, damage) => {
    const { path, file } = await closed();
    await damage(file);
    const storage = await openStorage(path);
    expect(await idsOf(storage, 'a')).toEqual(['one', 'two']);
    expect(await readable(storage)).toEqual([true, true, true]);
    await save(storage, 'a', 'three');
    const told = {
      code: 'STORAGE_FAILED',
      message: expect.stringMatching(/cella\.db: it is damaged\. Checkpoints .* move it away/),
    };
    expect(await failureOf(storage.events.append('a', [1]))).toMatchObject(told);
    expect(await failureOf(storage.records.put('a', recordOf('a')))).toMatchObject(told);
    expect(await failureOf(storage.locks.acquire('a'))).toMatchObject(told);
    await storage.close();
    await rename(file, `${file}.damaged`);
    await rm(`${file}-wal`, { force: true });
    await rm(`${file}-shm`, { force: true });
    const fresh = await openStorage(path);
    expect(await fresh.events.append('a', [1])).toBe(1);
    expect(await idsOf(fresh, 'a')).toEqual(['one', 'two', 'three']);
  });

  it('of a newer version is not changed', async () => {
    const { path, file } = await closed();
    change(file, 'PRAGMA user_version = 99');
    const storage = await openStorage(path);
    const error = await failureOf(collect(storage.records.list()));
    expect(error).toMatchObject({ code: 'STORAGE_FAILED', message: expect.stringContaining('version 99') });
  });

  it('with an unreadable record reports it, and lists the others', async () => {
    const { path, file } = await closed();
    change(file, `INSERT INTO records VALUES ('"b"', '{"agentKey":"b","state":"asleep"}'), ('"c"', 'not JSON')`);
    const storage = await openStorage(path);
    expect((await collect(storage.records.list())).map(({ agentKey }) => agentKey)).toEqual(['a']);
    expect(await storage.records.damaged()).toMatchObject([{ agentKey: 'b' }, { agentKey: 'c' }]);
    const error = await failureOf(storage.records.get('b'));
    expect(error).toMatchObject({ code: 'STORAGE_FAILED', message: expect.stringMatching(/"b".*state/) });
    expect(await storage.records.delete('b')).toBe(true);
  });

  it('with an unreadable document reports it, lists the others, and replaces it', async () => {
    const { path, file } = await closed();
    change(file, `INSERT INTO documents (collection, id, document) VALUES ('things', 'a', '{'), ('things', 'b', '1')`);
    const { documents } = await openStorage(path);
    expect(await failureOf(documents.get('things', 'a'))).toMatchObject({
      code: 'STORAGE_FAILED',
      details: { collection: 'things', id: 'a' },
    });
    expect(await documents.list('things')).toMatchObject({
      documents: [{ id: 'b', value: 1 }],
      damaged: [{ id: 'a' }],
    });
    expect(await documents.put('things', 'a', 3, { ifRevision: 0 })).toBeUndefined();
    expect(await documents.put('things', 'a', 3)).toBeGreaterThan(0);
    expect((await documents.get('things', 'a'))?.value).toBe(3);
  });

  function change(file: string, statement: string): void {
    const database = new DatabaseSync(file);
    database.exec(statement);
    database.close();
  }
});

describe('a storage', () => {
  it('is accessible only for its user', async () => {
    const { storage, path } = await saved();
    await storage.records.put('a', recordOf('a'));
    await storage.locks.acquire('a');
    const writer = await storage.checkpoints.begin('b');
    await writer.write(Buffer.from('x'));
    for (const entry of await readdir(path, { recursive: true, withFileTypes: true })) {
      const file = join(entry.parentPath, entry.name);
      const { mode } = await stat(file);
      expect([file, (mode & 0o777).toString(8)]).toEqual([file, entry.isDirectory() ? '700' : '600']);
    }
  });
});
