/** Tools and skills: texts by name, whole and durable, and a version that tells of every change. */

import { expect, it } from 'vitest';
import type { Storage, TextStore } from '../../../src/storage/contract.ts';
import { badNames, failureOf, goodNames, type OpenStorage, onePlace } from './samples.ts';

export function textContract(open: OpenStorage, pick: (storage: Storage) => TextStore): void {
  it('are stored unchanged, also for another storage on the same data', async () => {
    const again = onePlace(open);
    const texts = pick(await again());
    const before = Date.now() - 60_000;
    expect(await texts.get('grep')).toBeUndefined();
    expect(await texts.put('grep', 'name: grep\r\n# é 🎉\n')).toBe(true);
    const other = pick(await again());
    const found = await other.get('grep');
    expect(found).toEqual({
      name: 'grep',
      text: 'name: grep\r\n# é 🎉\n',
      updatedAt: expect.any(Number),
      where: expect.stringContaining('grep'),
    });
    expect(found?.updatedAt).toBeGreaterThan(before);
    expect(await texts.put('grep', '')).toBe(true);
    expect((await other.get('grep'))?.text).toBe('');
    expect((await other.list()).map(({ name, text }) => [name, text])).toEqual([['grep', '']]);
  });

  it('are listed by name, and case matters', async () => {
    const texts = pick(await onePlace(open)());
    expect(await texts.list()).toEqual([]);
    for (const name of ['b', 'a', 'A', 'a.b', 'ä']) await texts.put(name, `of ${name}`);
    const listed = (await texts.list()).map(({ name, text }) => [name, text]);
    expect(listed).toEqual(['A', 'a', 'a.b', 'b', 'ä'].map((name) => [name, `of ${name}`]));
  });

  it('have names in any script, in one spelling', async () => {
    const texts = pick(await onePlace(open)());
    for (const name of goodNames) await texts.put(name, name);
    for (const name of goodNames) expect((await texts.get(name))?.text).toBe(name);
    await texts.put('caf\u0065\u0301', 'decomposed');
    expect((await texts.get('caf\u00e9'))?.text).toBe('decomposed');
    expect((await texts.list()).filter(({ name }) => name.startsWith('caf')).map(({ name }) => name)).toEqual([
      'caf\u00e9',
    ]);
  });

  it.each(badNames)('refuse the name %j', async (name) => {
    const texts = pick(await onePlace(open)());
    for (const use of [() => texts.put(name, 'x'), () => texts.get(name), () => texts.delete(name)]) {
      expect((await failureOf(use())).code).toBe('INVALID_NAME');
    }
    expect(await texts.list()).toEqual([]);
  });

  it('are stored once with `ifAbsent`, even by many at once', async () => {
    const again = onePlace(open);
    const all = [pick(await again()), pick(await again())];
    const puts = Array.from({ length: 20 }, (_, index) =>
      all[index % 2]?.put('one', `text ${index}`, { ifAbsent: true }),
    );
    const done = await Promise.all(puts);
    expect(done.filter(Boolean)).toHaveLength(1);
    expect((await all[0]?.get('one'))?.text).toBe(`text ${done.indexOf(true)}`);
    await all[1]?.delete('one');
    expect(await all[0]?.put('one', 'again', { ifAbsent: true })).toBe(true);
  });

  it('are gone once deleted', async () => {
    const again = onePlace(open);
    const texts = pick(await again());
    await texts.put('one', 'x');
    expect(await texts.delete('one')).toBe(true);
    expect(await texts.delete('one')).toBe(false);
    expect(await pick(await again()).get('one')).toBeUndefined();
    expect(await texts.list()).toEqual([]);
  });

  it('have another version after each change, by any process, and the same one without a change', async () => {
    const again = onePlace(open);
    const [texts, other] = [pick(await again()), pick(await again())];
    const seen = [await texts.version()];
    const changes = [
      () => other.put('a', 'one'),
      () => other.put('a', 'two'),
      () => other.put('b', 'two'),
      () => other.delete('a'),
    ];
    for (const change of changes) {
      await change();
      seen.push(await texts.version());
      expect(await other.version()).toBe(seen.at(-1));
      expect(await texts.version()).toBe(seen.at(-1));
    }
    expect(new Set(seen).size).toBe(seen.length);
  });

  it('are counted, also after some were replaced or deleted', async () => {
    const texts = pick(await onePlace(open)());
    const held = async () => [await texts.holds(1), await texts.holds(2), await texts.holds(3)];
    expect(await held()).toEqual([false, false, false]);
    for (const name of ['a', 'b', 'b', 'b']) await texts.put(name, name);
    expect(await held()).toEqual([true, true, false]);
    await texts.delete('a');
    expect(await held()).toEqual([true, false, false]);
  });

  it('have at most a megabyte', async () => {
    const texts = pick(await onePlace(open)());
    const most = 'ä'.repeat(512 * 1024);
    await texts.put('large', most);
    expect((await texts.get('large'))?.text).toBe(most);
    for (const bad of [`${most}x`, 'lone \ud800']) {
      const error = await failureOf(texts.put('large', bad));
      expect(error).toMatchObject({ code: 'STORAGE_FAILED', message: expect.stringContaining('large') });
    }
    expect((await texts.get('large'))?.text).toBe(most);
  });

  it('cannot be put once the storage is closed', async () => {
    const storage = await onePlace(open)();
    await storage.close();
    expect((await failureOf(pick(storage).put('a', 'x'))).code).toBe('STORAGE_FAILED');
  });
}
