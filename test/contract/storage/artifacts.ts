/** Artifacts: bytes of any size, whole or not there, with what is known of them. */

import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import type { ArtifactFacts } from '../../../src/protocol/namespace-models.ts';
import { badNames, bytesOf, failureOf, goodNames, keep, type OpenStorage, onePlace, sha256 } from './samples.ts';

const facts: ArtifactFacts = {
  type: 'json',
  mediaType: 'application/json',
  description: 'what it is: ä',
  metadata: { rows: 3, of: ['a', null, { b: 1.5 }] },
};

const MB = 1024 * 1024;

export function artifactContract(open: OpenStorage): void {
  it('load as they were saved, with their metadata', async () => {
    const again = onePlace(open);
    const storage = await again({ clock: () => 5000 });
    expect(await storage.artifacts.get('a')).toBeUndefined();
    expect(await storage.artifacts.open('a')).toBeUndefined();
    await using writer = await storage.artifacts.begin('a');
    await writer.write(Buffer.from('4'));
    await writer.write(Buffer.from('2'));
    const info = await writer.finish(facts);
    const sum = sha256(Buffer.from('42'));
    expect(info).toEqual({ ...facts, name: 'a', size: 2, sha256: sum, createdAt: 5000, updatedAt: 5000 });
    const other = await again();
    expect(await other.artifacts.get('a')).toEqual(info);
    expect(await other.artifacts.list()).toEqual([info]);
    expect((await bytesOf(other, 'a'))?.toString()).toBe('42');
  });

  it('count their bytes before they are finished, and while a deleted or replaced one can still be read', async () => {
    const { artifacts } = await onePlace(open)();
    expect(await artifacts.unlistedBytes()).toBe(0);
    const writer = await artifacts.begin('a');
    for (let part = 0; part < 3; part++) await writer.write(randomBytes(MB));
    expect(await artifacts.unlistedBytes()).toBe(3 * MB);
    await writer.finish(facts);
    expect(await artifacts.unlistedBytes()).toBe(0);
    const aborted = await artifacts.begin('a');
    await aborted.write(randomBytes(MB));
    await aborted.abort();
    expect(await artifacts.unlistedBytes()).toBe(0);
    await using replaced = await artifacts.open('a');
    await using next = await artifacts.begin('a');
    await next.write(randomBytes(MB));
    await next.finish(facts);
    expect(await artifacts.unlistedBytes()).toBe(3 * MB);
    await using deleted = await artifacts.open('a');
    expect(await artifacts.delete('a')).toBe(true);
    expect(await artifacts.unlistedBytes()).toBe(4 * MB);
    expect([(await replaced?.read(0, 8 * MB))?.length, (await deleted?.read(0, 8 * MB))?.length]).toEqual([3 * MB, MB]);
  });

  it('are replaced as a whole, and keep their creation time', async () => {
    const again = onePlace(open);
    await keep(await again({ clock: () => 1000 }), 'a', Buffer.from('first, and long'));
    await keep(await again({ clock: () => 2000 }), 'a', Buffer.from('second'), { ...facts, description: 'other' });
    const storage = await again();
    expect(await storage.artifacts.list()).toEqual([
      expect.objectContaining({ name: 'a', size: 6, description: 'other', createdAt: 1000, updatedAt: 2000 }),
    ]);
    expect((await bytesOf(storage, 'a'))?.toString()).toBe('second');
  });

  it('are visible to nobody before they are finished, nor after they are aborted', async () => {
    const again = onePlace(open);
    const [storage, other] = [await again(), await again()];
    await keep(storage, 'a', Buffer.from('old'));
    const writer = await storage.artifacts.begin('a');
    await writer.write(randomBytes(9 * MB));
    expect((await bytesOf(other, 'a'))?.toString()).toBe('old');
    await writer.abort();
    await writer.abort();
    expect((await failureOf(writer.write(Buffer.from('x')))).code).toBe('STORAGE_FAILED');
    expect((await failureOf(writer.finish(facts))).code).toBe('STORAGE_FAILED');
    {
      await using unfinished = await storage.artifacts.begin('b');
      await unfinished.write(Buffer.from('x'));
    }
    expect((await other.artifacts.list()).map(({ name }) => name)).toEqual(['a']);
    expect((await bytesOf(other, 'a'))?.toString()).toBe('old');
  });

  it.each([0, 1, 8 * MB - 1, 8 * MB, 8 * MB + 1, 20 * MB])('of %i bytes can be read at any position', async (size) => {
    const again = onePlace(open);
    const storage = await again();
    const bytes = randomBytes(size);
    expect((await keep(storage, 'a', bytes, facts, 3 * MB + 7)).size).toBe(size);
    await using reader = await (await again()).artifacts.open('a');
    if (!reader) throw new Error('it does not exist');
    for (const [offset, length] of [
      [0, 10],
      [8 * MB - 5, 10],
      [size - 3, 10],
      [size, 10],
      [size + 5, 10],
      [0, size + 10],
    ] as const) {
      if (offset < 0) continue;
      const part = await reader.read(offset, length);
      expect(Buffer.compare(part, bytes.subarray(offset, offset + length))).toBe(0);
    }
    expect(reader.info.sha256).toBe(sha256(bytes));
  });

  it('keep the old content for a reader that has started', async () => {
    const again = onePlace(open);
    const [storage, other] = [await again(), await again()];
    const old = randomBytes(9 * MB);
    await keep(storage, 'a', old);
    await using reader = await other.artifacts.open('a');
    await keep(storage, 'a', Buffer.from('new'));
    expect(Buffer.compare((await reader?.read(0, old.length)) ?? Buffer.alloc(0), old)).toBe(0);
    await storage.artifacts.delete('a');
    expect(Buffer.compare((await reader?.read(5, 100)) ?? Buffer.alloc(0), old.subarray(5, 105))).toBe(0);
  });

  it('have one content or the other if several writers finish at once', async () => {
    const again = onePlace(open);
    const storages = [await again(), await again()] as const;
    const write = async (name: string, index: number) => {
      const description = `by ${index}`;
      const storage = index % 2 === 0 ? storages[0] : storages[1];
      await keep(storage, name, Buffer.from(description.repeat(1000)), { ...facts, description });
    };
    // The first writers of a name are the ones that get in each other's way.
    for (let round = 0; round < 20; round++) {
      const name = `round ${round}`;
      await Promise.all(Array.from({ length: 12 }, (_, index) => write(name, index)));
      const info = await storages[0].artifacts.get(name);
      expect((await bytesOf(storages[1], name))?.toString()).toBe(info?.description.repeat(1000));
    }
  });

  it('are gone once deleted', async () => {
    const again = onePlace(open);
    const storage = await again({ clock: () => 1 });
    await keep(storage, 'a', randomBytes(9 * MB));
    expect(await storage.artifacts.delete('a')).toBe(true);
    expect(await storage.artifacts.delete('a')).toBe(false);
    expect(await storage.artifacts.list()).toEqual([]);
    const later = await again({ clock: () => 7 });
    expect(await keep(later, 'a', Buffer.from('x'))).toMatchObject({ createdAt: 7 });
  });

  it('have names in any script, in one spelling, and are sorted by name', async () => {
    const storage = await onePlace(open)();
    for (const name of goodNames) await keep(storage, name, Buffer.from(name));
    await keep(storage, 'caf\u0065\u0301', Buffer.from('x'));
    const names = [...goodNames, 'caf\u00e9'].toSorted();
    expect((await storage.artifacts.list()).map(({ name }) => name)).toEqual(names);
    expect((await bytesOf(storage, 'caf\u00e9'))?.toString()).toBe('x');
  });

  it.each(badNames)('refuse the name %j', async (name) => {
    const { artifacts } = await onePlace(open)();
    for (const use of [
      () => artifacts.begin(name),
      () => artifacts.get(name),
      () => artifacts.open(name),
      () => artifacts.delete(name),
    ]) {
      expect((await failureOf(use())).code).toBe('INVALID_NAME');
    }
    expect(await artifacts.list()).toEqual([]);
  });

  it('come in pages, by name, each exactly once', async () => {
    const storage = await onePlace(open)();
    const names = ['b', 'a', 'A', 'a.b', '\u00e4', '\u{1f389}', 'z'].toSorted((one, other) => (one < other ? -1 : 1));
    for (const name of names) await keep(storage, name, Buffer.from(name));
    for (const limit of [1, 2, 3, 7, 8]) {
      const told: string[] = [];
      for (let after: string | undefined; ; after = told.at(-1)) {
        const page = await storage.artifacts.list({ after, limit });
        expect(page.length).toBeLessThanOrEqual(limit);
        told.push(...page.map(({ name }) => name));
        if (page.length < limit) break;
      }
      expect(told).toEqual(names);
    }
    // What the place is told by may be gone by then.
    expect((await storage.artifacts.list({ after: 'b0' })).map(({ name }) => name)).toEqual(
      names.filter((name) => name > 'b0'),
    );
  });

  it('come in short pages if their metadata is long, each exactly once', async () => {
    const storage = await onePlace(open)();
    const names = Array.from({ length: 120 }, (_, number) => `a${number + 100}`);
    for (const name of names) {
      const writer = await storage.artifacts.begin(name);
      const metadata = { long: 'x'.repeat(10_000) };
      await writer.finish({ type: 'bytes', mediaType: 'text/plain', description: '', metadata });
    }
    const enough = 300_000;
    const told: string[] = [];
    for (let more = true; more; ) {
      const page = await storage.artifacts.list({ after: told.at(-1), enough });
      const length = page.reduce((sum, info) => sum + JSON.stringify(info).length, 0);
      expect(length).toBeLessThan(enough + 60 * 11_000);
      told.push(...page.map(({ name }) => name));
      more = length >= enough;
    }
    expect(told).toEqual(names);
  });

  it('are counted, also after some were replaced or deleted', async () => {
    const storage = await onePlace(open)();
    const { artifacts } = storage;
    const held = async () => [await artifacts.holds(1), await artifacts.holds(2), await artifacts.holds(3)];
    expect(await held()).toEqual([false, false, false]);
    for (const name of ['a', 'b', 'b', 'b']) await keep(storage, name, Buffer.from(name));
    expect(await held()).toEqual([true, true, false]);
    await artifacts.delete('a');
    expect(await held()).toEqual([true, false, false]);
  });

  it('are refused with invalid metadata, and the previous one stays', async () => {
    const storage = await onePlace(open)();
    await keep(storage, 'a', Buffer.from('old'));
    const wrong = { ...facts, type: 'pickle' } as never;
    expect((await failureOf(keep(storage, 'a', Buffer.from('new'), wrong))).code).toBe('ARTIFACT_INVALID');
    expect((await bytesOf(storage, 'a'))?.toString()).toBe('old');
  });

  it('that are unfinished are dropped when the storage is closed', async () => {
    const again = onePlace(open);
    const storage = await again();
    const writer = await storage.artifacts.begin('a');
    await writer.write(Buffer.from('x'));
    await storage.close();
    expect((await failureOf(writer.finish(facts))).code).toBe('STORAGE_FAILED');
    expect((await failureOf(storage.artifacts.begin('b'))).code).toBe('STORAGE_FAILED');
    expect(await (await again()).artifacts.list()).toEqual([]);
  });
}
