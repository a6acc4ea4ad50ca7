/** Scopes: skills, artifacts and deps of their own in one storage, whatever the scopes are called. */

import { randomBytes } from 'node:crypto';
import { expect, it, onTestFinished } from 'vitest';
import type { Storage } from '../../../src/storage/contract.ts';
import { storageFromBootstrap } from '../../../src/storage/open-storage.ts';
import { badNames, bytesOf, failureOf, keep, type OpenStorage, onePlace, recordOf } from './samples.ts';

/** Alike for a file system, for a pattern, or for a separator; some are words of the storage itself. */
const scopes = [
  [
    'ann~000000000000',
    'bob~000000000000',
    'a',
    'A',
    'a*',
    'a?',
    '[a]',
    '^a',
    'a-',
    'a\\',
    'a"',
    'a"|skills',
    'a|skills',
  ],
  ['.', '..', '../..', '/', 'a/b', '~', '.unfinished', 'skills', 'artifacts', 'scope', '\ud800', '\ud801', '😀', ' '],
].flat();

async function mark(storage: Storage, text: string): Promise<void> {
  await storage.skills.put('same', text);
  await storage.deps.add(`pkg==${text}`);
  await keep(storage, 'same', Buffer.from(text));
}

async function marksOf(storage: Storage): Promise<unknown[]> {
  const { skills, artifacts, deps } = storage;
  const names = (await artifacts.list()).map(({ name }) => name);
  const texts = (await skills.list()).map(({ name, text }) => `${name} ${text}`);
  return [texts, await deps.list(), names, String(await bytesOf(storage, 'same'))];
}

const marked = (text: string) => [[`same ${text}`], [`pkg==${text}`], ['same'], text];
const nothing = [[], [], [], 'undefined'];

export function scopeContract(open: OpenStorage): void {
  it('that look alike never share data, nor with data outside of scopes', async () => {
    const again = onePlace(open);
    const storage = await again();
    await mark(storage, '0');
    for (const [index, name] of scopes.entries()) {
      expect(await marksOf(storage.scope(name)), JSON.stringify(name)).toEqual(nothing);
      await mark(storage.scope(name), `${index + 1}`);
    }
    const other = await again();
    expect(await marksOf(other)).toEqual(marked('0'));
    for (const [index, name] of scopes.entries()) {
      expect(await marksOf(other.scope(name)), JSON.stringify(name)).toEqual(marked(`${index + 1}`));
    }
  });

  it('share everything else with their storage', async () => {
    const storage = await onePlace(open)();
    const scope = storage.scope('a');
    await storage.tools.put('grep', 'x');
    await scope.records.put('agent', recordOf('agent'));
    await scope.documents.put('things', 'one', 1);
    expect((await scope.tools.get('grep'))?.text).toBe('x');
    expect((await storage.records.get('agent'))?.agentKey).toBe('agent');
    expect((await storage.documents.get('things', 'one'))?.value).toBe(1);
    await using _lock = await scope.locks.acquire('agent');
    expect((await failureOf(storage.locks.acquire('agent'))).code).toBe('KEY_BUSY');
    await scope.deleteKey('agent');
    expect(await storage.records.get('agent')).toBeUndefined();
    expect(scope.scope('b').toBootstrapConfig()).toEqual(storage.scope('b').toBootstrapConfig());
  });

  it('lose all their data when they are deleted, and no other scope does', async () => {
    const again = onePlace(open);
    const storage = await again();
    for (const name of ['a', 'a*', '*', 'b']) await mark(storage.scope(name), '1');
    await mark(storage, '0');
    const unfinished = await storage.scope('a*').artifacts.begin('half');
    await unfinished.write(randomBytes(100));
    await storage.deleteScope('a*');
    await storage.deleteScope('nobody');
    expect(
      (await failureOf(unfinished.finish({ type: 'bytes', mediaType: 'x/y', description: '', metadata: {} }))).code,
    ).toBe('STORAGE_FAILED');
    const other = await again();
    for (const one of [storage, other]) expect(await marksOf(one.scope('a*'))).toEqual(nothing);
    for (const name of ['a', '*', 'b']) expect(await marksOf(other.scope(name)), name).toEqual(marked('1'));
    expect(await marksOf(other)).toEqual(marked('0'));
    await mark(storage.scope('a*'), '2');
    expect(await marksOf(other.scope('a*'))).toEqual(marked('2'));
  });

  it('are opened by another process, by their bootstrap config', async () => {
    const storage = await onePlace(open)();
    await mark(storage.scope('bob~000000000000'), '7');
    const config = JSON.parse(JSON.stringify(storage.scope('bob~000000000000').toBootstrapConfig()));
    const again = await storageFromBootstrap(config);
    onTestFinished(() => again.close());
    expect(await marksOf(again)).toEqual(marked('7'));
    expect(again.toBootstrapConfig()).toEqual(config);
    await again.close();
    expect((await failureOf(again.documents.get('x', 'y'))).code).toBe('STORAGE_FAILED');
  });

  it('refuse names that would lead out of them, and must have a name', async () => {
    const storage = await onePlace(open)();
    await mark(storage, '0');
    const { skills, artifacts } = storage.scope('a');
    for (const name of [...badNames, '../../../skills/same', '../skills/same']) {
      for (const use of [() => skills.get(name), () => skills.put(name, 'x'), () => artifacts.open(name)]) {
        expect((await failureOf(use())).code, JSON.stringify(name)).toBe('INVALID_NAME');
      }
    }
    expect(() => storage.scope('')).toThrow(expect.objectContaining({ code: 'INVALID_NAME' }));
    expect((await failureOf(storage.deleteScope(''))).code).toBe('INVALID_NAME');
    expect(await marksOf(storage)).toEqual(marked('0'));
  });
}
