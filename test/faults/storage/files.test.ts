/** Tools, skills and artifacts as files that a person has changed, added, removed or linked. */

import { mkdirSync } from 'node:fs';
import { appendFile, cp, mkdir, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { bytesOf, failureOf, keep, plainFacts, sha256 } from '../../contract/storage/samples.ts';
import { Child, openStorage, scratch } from './child-processes.ts';
import { wholeArtifact, wholeText } from './namespace-data.ts';

async function place() {
  const path = join(scratch(), 'data');
  return { path, storage: await openStorage(path) };
}

describe('the folder of tools', () => {
  it('shows files that a person writes, edits and removes, each with another version', async () => {
    const { path, storage } = await place();
    const file = join(path, 'tools', 'grep.yaml');
    await storage.tools.put('grep', 'one\n');
    expect(await readFile(file, 'utf8')).toBe('one\n');
    const versions = [await storage.tools.version()];
    const changes = [
      () => writeFile(file, 'two\n'),
      // Of the same length, and perhaps in the same tick of the clock.
      () => writeFile(file, 'six\n'),
      () => writeFile(join(path, 'tools', 'new.yaml'), 'x'),
      () => rm(join(path, 'tools', 'new.yaml')),
      () => appendFile(file, '\n'),
    ];
    for (const change of changes) {
      await change();
      versions.push(await storage.tools.version());
    }
    for (const [index, version] of versions.entries()) expect(version).not.toBe(versions[index + 1]);
    expect(await storage.tools.get('grep')).toMatchObject({ text: 'six\n\n', where: file });
  });

  it('notices an edit of an old file', async () => {
    const { path, storage } = await place();
    const file = join(path, 'tools', 'old.yaml');
    await storage.tools.put('old', 'one');
    await utimes(file, 1000, 1000);
    const before = await storage.tools.version();
    await writeFile(file, 'two');
    await utimes(file, 1000, 1000);
    expect(await storage.tools.version()).not.toBe(before);
  });

  it('omits anything but plain files with valid names', async () => {
    const { path, storage } = await place();
    const tools = join(path, 'tools');
    await storage.tools.put('real', 'x');
    const secret = join(path, '..', 'secret');
    await writeFile(secret, 'secret');
    await symlink(secret, join(tools, 'linked.yaml'));
    await symlink('/nowhere', join(tools, 'broken.yaml'));
    await mkdir(join(tools, 'folder.yaml'));
    await writeFile(join(tools, '.hidden.yaml'), 'x');
    await writeFile(join(tools, 'notes.txt'), 'x');
    await writeFile(join(tools, 'large.yaml'), 'x'.repeat(1024 * 1024 + 1));
    expect((await storage.tools.list()).map(({ name }) => name)).toEqual(['real']);
    expect(await storage.tools.get('linked')).toBeUndefined();
    expect(await storage.tools.get('folder')).toBeUndefined();
    expect((await failureOf(storage.tools.get('large'))).message).toContain('large.yaml');
    // What is put in place of a link does not go where it leads.
    expect(await storage.tools.put('linked', 'own', { ifAbsent: true })).toBe(false);
    await storage.tools.put('linked', 'own');
    expect(await readFile(secret, 'utf8')).toBe('secret');
    expect((await storage.tools.get('linked'))?.text).toBe('own');
  });

  it('finds a file whose name another system has spelled differently', async () => {
    const { path, storage } = await place();
    await mkdir(join(path, 'skills'));
    await writeFile(join(path, 'skills', 'cafe\u0301.py'), 'x');
    expect((await storage.skills.get('café'))?.text).toBe('x');
    expect(await storage.skills.put('café', 'y', { ifAbsent: true })).toBe(false);
    await storage.skills.put('café', 'y');
    expect((await storage.skills.list()).map(({ name, text }) => [name, text])).toEqual([['café', 'y']]);
    expect(await storage.skills.delete('café')).toBe(true);
    expect(await storage.skills.list()).toEqual([]);
  });
});

describe('the folder of artifacts', () => {
  it('holds the unchanged bytes, and nothing else that a person would see', async () => {
    const { path, storage } = await place();
    await keep(storage, 'report.md', Buffer.from('# hello'));
    expect(await readFile(join(path, 'artifacts', 'report.md'), 'utf8')).toBe('# hello');
    expect((await readdir(join(path, 'artifacts'))).filter((name) => !name.startsWith('.'))).toEqual(['report.md']);
  });

  it.each([
    ['notes.txt', 'text', 'text/plain'],
    ['table.csv', 'text', 'text/csv'],
    ['picture.png', 'file', 'image/png'],
    ['data.json', 'file', 'application/json'],
    ['something', 'file', 'application/octet-stream'],
  ])('lists %s that a person has dropped in', async (name, type, mediaType) => {
    const { path, storage } = await place();
    await mkdir(join(path, 'artifacts'));
    await writeFile(join(path, 'artifacts', name), 'dropped in');
    const info = { name, type, mediaType, size: 10, sha256: sha256(Buffer.from('dropped in')) };
    expect(await storage.artifacts.list()).toMatchObject([info]);
    expect((await bytesOf(storage, name))?.toString()).toBe('dropped in');
  });

  it('gives what a person has edited, with its type and description', async () => {
    const { path, storage } = await place();
    const facts = { ...plainFacts, type: 'json' as const, description: 'numbers' };
    await keep(storage, 'a', Buffer.from('[1]'), facts);
    await writeFile(join(path, 'artifacts', 'a'), '[1, 2]');
    const sum = sha256(Buffer.from('[1, 2]'));
    expect(await storage.artifacts.get('a')).toMatchObject({ ...facts, size: 6, sha256: sum });
    expect((await bytesOf(storage, 'a'))?.toString()).toBe('[1, 2]');
    // Back to what it was: still the same artifact.
    await writeFile(join(path, 'artifacts', 'a'), '[1]');
    expect(await storage.artifacts.get('a')).toMatchObject({ ...facts, size: 3 });
  });

  it('is whole where it was copied, and where what is known of it was lost', async () => {
    const { path, storage } = await place();
    const info = await keep(storage, 'a', Buffer.from('[1]'), { ...plainFacts, description: 'numbers' });
    const copy = join(scratch(), 'copy');
    await cp(join(path, 'artifacts'), join(copy, 'artifacts'), { recursive: true });
    expect(await (await openStorage(copy)).artifacts.get('a')).toEqual(info);
    await writeFile(join(path, 'artifacts', '.about', 'a.json'), 'garbage');
    expect(await storage.artifacts.get('a')).toMatchObject({ name: 'a', type: 'file', size: 3 });
    await rm(join(path, 'artifacts', '.about'), { recursive: true });
    expect(await storage.artifacts.list()).toMatchObject([{ name: 'a', type: 'file', size: 3 }]);
  });

  it('follows no link', async () => {
    const { path, storage } = await place();
    await mkdir(join(path, 'artifacts'));
    await symlink('/etc/passwd', join(path, 'artifacts', 'passwd'));
    await mkdir(join(path, 'artifacts', 'folder'));
    expect(await storage.artifacts.list()).toEqual([]);
    expect(await storage.artifacts.open('passwd')).toBeUndefined();
    expect(await storage.artifacts.delete('folder')).toBe(false);
    await keep(storage, 'passwd', Buffer.from('own'));
    expect((await bytesOf(storage, 'passwd'))?.toString()).toBe('own');
    expect((await readFile('/etc/passwd', 'utf8')).length).toBeGreaterThan(3);
  });
});

it('before any step of replacing an artifact and a tool, a killed process leaves the old one or the new one', {
  timeout: 180_000,
}, async () => {
  const left: string[] = [];
  for (let step = 1; ; step += 1) {
    const path = join(scratch(), 'data');
    const child = Child.on({ type: 'file', path }, 'replaceStepwise', String(step));
    const told = await child.lines.next();
    await child.exited();
    const storage = await openStorage(path);
    const found = [await wholeArtifact(storage), await wholeText(storage)];
    left.push(found.join());
    // What nobody finished is swept, and nothing else is in sight.
    expect((await readdir(join(path, 'artifacts', '.unfinished'))).length).toBe(0);
    await storage.close();
    if (!told.done) break;
  }
  expect([...new Set(left)]).toEqual(['1,1', '2,1', '2,2']);
});

it('deps from before there were scopes are those in no scope', async () => {
  const path = scratch();
  await (await openStorage(path)).close();
  const database = new DatabaseSync(join(path, 'cella.db'));
  database.exec(`
    CREATE TABLE deps (name TEXT PRIMARY KEY, requirement TEXT NOT NULL);
    INSERT INTO deps VALUES ('requests', 'requests>=2');
    CREATE TABLE documents (revision INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, id TEXT NOT NULL,
      document TEXT NOT NULL, UNIQUE (collection, id));
    CREATE TABLE transcripts (number INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, id TEXT NOT NULL,
      revision INTEGER NOT NULL, text TEXT NOT NULL, UNIQUE (agent, id));
    PRAGMA user_version = 3;
  `);
  database.close();
  const storage = await openStorage(path);
  expect(await storage.deps.list()).toEqual(['requests>=2']);
  expect(await storage.scope('ann').deps.list()).toEqual([]);
  expect(await storage.deps.add('requests>=2')).toBe(false);
});

it('a database of the first version is used on', async () => {
  const path = scratch();
  mkdirSync(path, { recursive: true });
  const database = new DatabaseSync(join(path, 'cella.db'));
  database.exec(`
    CREATE TABLE records (agent TEXT PRIMARY KEY, record TEXT NOT NULL);
    CREATE TABLE logs (id INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL UNIQUE, last INTEGER NOT NULL,
      floor INTEGER NOT NULL, bytes INTEGER NOT NULL);
    CREATE TABLE events (log INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, start INTEGER NOT NULL,
      event TEXT NOT NULL, PRIMARY KEY (log, seq));
    CREATE TABLE locks (agent TEXT PRIMARY KEY, grip TEXT NOT NULL, holder TEXT NOT NULL, pid INTEGER NOT NULL,
      host TEXT NOT NULL, command TEXT, since INTEGER NOT NULL);
    INSERT INTO logs (agent, last, floor, bytes) VALUES ('"a"', 7, 7, 0);
    PRAGMA user_version = 1;
  `);
  database.close();
  const storage = await openStorage(path);
  expect(await storage.events.last('a')).toBe(7);
  await storage.deps.add('requests');
  expect(await storage.deps.list()).toEqual(['requests']);
  expect(await storage.documents.put('things', 'a', 1)).toBe(1);
});
