/** Documents: JSON by collection and id, changed only by whoever has seen the last revision. */

import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { DocumentStore, ListDocuments } from '../../../src/storage/contract.ts';
import { failureOf, type OpenStorage, onePlace } from './samples.ts';

const idsIn = async (documents: DocumentStore, options?: ListDocuments): Promise<string[]> =>
  (await documents.list('things', options)).documents.map(({ id }) => id);

/** All pages, as a reader goes through them. */
async function pagesOf(documents: DocumentStore, options: ListDocuments): Promise<string[][]> {
  const pages: string[][] = [];
  for (let after: string | undefined = ''; after !== undefined; ) {
    const page = await documents.list('things', { ...options, after });
    pages.push(page.documents.map(({ id }) => id));
    after = page.next;
  }
  return pages;
}

export function documentContract(open: OpenStorage): void {
  it('are stored unchanged, with their revision, also for another storage', async () => {
    const again = onePlace(open);
    const { documents } = await again();
    const value = { name: 'é 🎉 \0 \ud800 \r\n', list: [1, 2.5, -0.1, null, true, { deep: [] }], '': '' };
    expect(await documents.get('things', 'a')).toBeUndefined();
    const revision = await documents.put('things', 'a', value);
    expect(revision).toBeGreaterThan(0);
    expect(await (await again()).documents.get('things', 'a')).toEqual({ id: 'a', revision, value });
    for (const plain of [null, 0, '', false, []]) {
      await documents.put('things', 'a', plain);
      expect((await documents.get('things', 'a'))?.value).toEqual(plain);
    }
  });

  it('are replaced only if they have the given revision', async () => {
    const { documents } = await onePlace(open)();
    const first = await documents.put('things', 'a', 1);
    const second = await documents.put('things', 'a', 2, { ifRevision: first ?? -1 });
    expect(second).toBeGreaterThan(first ?? Infinity);
    expect(await documents.put('things', 'a', 3, { ifRevision: first ?? -1 })).toBeUndefined();
    expect(await documents.put('things', 'b', 3, { ifRevision: second ?? -1 })).toBeUndefined();
    expect((await documents.get('things', 'a'))?.value).toBe(2);
    expect(await documents.get('things', 'b')).toBeUndefined();
  });

  it('are created only if there is none, on request', async () => {
    const { documents } = await onePlace(open)();
    expect(await documents.put('things', 'a', 1, { ifRevision: 0 })).toBeGreaterThan(0);
    expect(await documents.put('things', 'a', 2, { ifRevision: 0 })).toBeUndefined();
    expect((await documents.get('things', 'a'))?.value).toBe(1);
  });

  it('that are deleted and created again have a new revision', async () => {
    const again = onePlace(open);
    const { documents } = await again();
    const seen = await documents.put('things', 'a', 1);
    expect(await documents.delete('things', 'a')).toBe(true);
    expect(await documents.delete('things', 'a')).toBe(false);
    const made = await (await again()).documents.put('things', 'a', 2, { ifRevision: 0 });
    expect(made).toBeGreaterThan(seen ?? Infinity);
    expect(await documents.put('things', 'a', 3, { ifRevision: seen ?? -1 })).toBeUndefined();
    expect(await documents.delete('things', 'a', { ifRevision: seen ?? -1 })).toBe(false);
    expect(await documents.delete('things', 'a', { ifRevision: made ?? -1 })).toBe(true);
  });

  it('have one winner if several callers create, change or delete one at once', async () => {
    const again = onePlace(open);
    const stores = [(await again()).documents, (await again()).documents];
    const race = <T>(work: (store: DocumentStore, index: number) => Promise<T>) =>
      Promise.all(Array.from({ length: 20 }, (_, index) => work(stores[index % 2] as DocumentStore, index)));
    const made = await race((store, index) => store.put('things', 'a', index, { ifRevision: 0 }));
    expect(made.filter((revision) => revision !== undefined)).toHaveLength(1);
    const [revision] = made.filter((each) => each !== undefined);
    const changed = await race((store, index) => store.put('things', 'a', index, { ifRevision: revision ?? -1 }));
    expect(changed.filter((each) => each !== undefined)).toHaveLength(1);
    expect((await stores[1]?.get('things', 'a'))?.value).toBe(changed.findIndex((each) => each !== undefined));
    const deleted = await race((store) => store.delete('things', 'a'));
    expect(deleted.filter(Boolean)).toHaveLength(1);
  });

  it('count without losses if all callers retry', async () => {
    const again = onePlace(open);
    const stores = [(await again()).documents, (await again()).documents];
    await stores[0]?.put('things', 'n', 0);
    const increment = async (store: DocumentStore): Promise<void> => {
      for (;;) {
        const seen = await store.get('things', 'n');
        const next = Number(seen?.value) + 1;
        if (await store.put('things', 'n', next, { ifRevision: seen?.revision ?? 0 })) return;
      }
    };
    await Promise.all(stores.flatMap((store) => Array.from({ length: 10 }, () => increment(store))));
    expect((await stores[0]?.get('things', 'n'))?.value).toBe(20);
  });

  it('are listed by id, in byte order, in pages, optionally with a prefix', async () => {
    const { documents } = await onePlace(open)();
    const ids = ['b/2', 'a', 'B', 'b/1', '~', '!', 'b', 'b0', 'b/10', '[a', '(a', '*', 'b/', 'a~', 'a~~'];
    for (const id of ids) await documents.put('things', id, id);
    await documents.put('others', 'b/3', 'elsewhere');
    const sorted = ids.toSorted();
    expect(await idsIn(documents)).toEqual(sorted);
    expect(await idsIn(documents, { prefix: 'b/' })).toEqual(['b/', 'b/1', 'b/10', 'b/2']);
    expect(await idsIn(documents, { prefix: 'b/', after: 'b/1' })).toEqual(['b/10', 'b/2']);
    expect(await idsIn(documents, { prefix: 'b/', after: 'a' })).toEqual(['b/', 'b/1', 'b/10', 'b/2']);
    expect(await idsIn(documents, { prefix: 'b/', after: 'c' })).toEqual([]);
    expect(await idsIn(documents, { prefix: 'zzz' })).toEqual([]);
    expect(await pagesOf(documents, { limit: 4 })).toEqual([0, 4, 8, 12].map((at) => sorted.slice(at, at + 4)));
    expect(await pagesOf(documents, { limit: 2, prefix: 'b/' })).toEqual([
      ['b/', 'b/1'],
      ['b/10', 'b/2'],
    ]);
    expect((await documents.list('nothing')).documents).toEqual([]);
  });

  it('are all found, once each, by pages of any size', async () => {
    const { documents } = await onePlace(open)();
    const printable = fc.string({
      unit: fc.integer({ min: 0x21, max: 0x7e }).map((unit) => String.fromCharCode(unit)),
      minLength: 1,
      maxLength: 6,
    });
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(printable, fc.integer({ min: 1, max: 7 }), async (id, limit) => {
        await documents.put('things', id, id);
        seen.add(id);
        expect((await pagesOf(documents, { limit })).flat()).toEqual([...seen].toSorted());
        const prefix = id.slice(0, 1);
        const alike = [...seen].filter((each) => each.startsWith(prefix)).toSorted();
        expect((await pagesOf(documents, { limit, prefix })).flat()).toEqual(alike);
      }),
      { numRuns: 30 },
    );
  });

  it('are found by their current fields, in pages', async () => {
    const { documents } = await onePlace(open)();
    const owned = (ownerId: string, more = {}) => ({ ownerId, life: 'present', shares: [], ...more });
    const ids = Array.from({ length: 9 }, (_, number) => `ses_${number}`);
    for (const [number, id] of ids.entries()) await documents.put('sessions', id, owned(number % 3 ? 'ann' : 'bob'));
    const by = async (field: string, value: string, options: ListDocuments = {}) => {
      const page = await documents.list('sessions', { ...options, where: { field, value } });
      return page.documents.map(({ id }) => id);
    };
    const ofBob = ['ses_0', 'ses_3', 'ses_6'];
    expect(await by('ownerId', 'bob')).toEqual(ofBob);
    expect(await by('ownerId', 'bob', { after: 'ses_0' })).toEqual(ofBob.slice(1));
    expect(await by('ownerId', 'bob', { limit: 2 })).toEqual(ofBob.slice(0, 2));
    expect(await by('ownerId', 'bo')).toEqual([]);
    expect(await by('ownerId', 'bob ses_0')).toEqual([]);
    expect(await documents.count('sessions', { field: 'ownerId', value: 'bob' })).toBe(3);
    expect(await documents.count('sessions')).toBe(9);
    await documents.put('sessions', 'ses_3', owned('ann', { shares: [{ userId: 'bob' }, { role: 'member' }, 5] }));
    await documents.delete('sessions', 'ses_6');
    expect(await by('ownerId', 'bob')).toEqual(['ses_0']);
    expect(await by('shares.userId', 'bob')).toEqual(['ses_3']);
    expect(await by('shares.role', 'member')).toEqual(['ses_3']);
    await documents.put('sessions', 'ses_3', owned('ann'), { ifRevision: 1_000_000 });
    expect(await by('shares.userId', 'bob')).toEqual(['ses_3']);
    await documents.put('sessions', 'ses_3', null);
    expect(await by('shares.userId', 'bob')).toEqual([]);
    expect(await documents.count('sessions')).toBe(8);
    expect((await failureOf(by('name', 'x'))).code).toBe('INVALID_OPTIONS');
    expect((await failureOf(documents.count('things', { field: 'ownerId', value: 'x' }))).code).toBe('INVALID_OPTIONS');
  });

  it('behave like a plain table under all operations', async () => {
    const id = fc.constantFrom('a', 'b', 'c');
    const step = fc.oneof(
      fc.record({
        kind: fc.constant('put'),
        id,
        value: fc.jsonValue(),
        when: fc.constantFrom('always', 'seen', 'old', 'none'),
      }),
      fc.record({
        kind: fc.constant('delete'),
        id,
        value: fc.constant(null),
        when: fc.constantFrom('always', 'seen', 'old'),
      }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        const { documents } = await onePlace(open)();
        const table = new Map<string, { revision: number; value: unknown }>();
        let newest = 0;
        for (const { kind, id: at, value, when } of steps) {
          const revision = table.get(at)?.revision ?? 0;
          const ifRevision = { always: undefined, seen: revision, old: newest + 1, none: 0 }[when];
          const condition = ifRevision === undefined ? {} : { ifRevision };
          const holds = ifRevision === undefined || ifRevision === revision;
          if (kind === 'put') {
            const put = await documents.put('things', at, value, condition);
            expect(put !== undefined).toBe(holds);
            if (put === undefined) continue;
            expect(put).toBeGreaterThan(newest);
            newest = put;
            table.set(at, { revision: put, value: JSON.parse(JSON.stringify(value)) });
          } else {
            expect(await documents.delete('things', at, condition)).toBe(holds && table.has(at));
            if (holds) table.delete(at);
          }
        }
        const left = [...table]
          .toSorted(([one], [other]) => (one < other ? -1 : 1))
          .map(([key, rest]) => ({ id: key, ...rest }));
        expect((await documents.list('things')).documents).toEqual(left);
      }),
      { numRuns: 30 },
    );
  });

  it('make a page shorter if they are large', async () => {
    const { documents } = await onePlace(open)();
    const large = 'x'.repeat(1024 * 1024 - 2);
    for (let index = 0; index < 7; index += 1) await documents.put('things', `d${index}`, large);
    const pages = await pagesOf(documents, { limit: 100 });
    expect(pages.flat()).toHaveLength(7);
    expect(Math.max(...pages.map((page) => page.length))).toBeLessThan(6);
  });

  it('over 1 MB, or that are not JSON, are refused, and the previous one stays', async () => {
    const { documents } = await onePlace(open)();
    await documents.put('things', 'a', 'old');
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    for (const bad of ['x'.repeat(1024 * 1024 - 1), 'é'.repeat(600_000), undefined, () => 1, 5n, circle]) {
      expect((await failureOf(documents.put('things', 'a', bad))).code).toBe('STORAGE_FAILED');
    }
    expect((await documents.get('things', 'a'))?.value).toBe('old');
  });

  it.each(['', ' ', 'a b', 'é', 'a\n', '\0', '\x7f', 'x'.repeat(513), '\ud800'])('refuse the id %j', async (id) => {
    const { documents } = await onePlace(open)();
    for (const attempt of [
      documents.get('things', id),
      documents.put('things', id, 1),
      documents.delete('things', id),
    ]) {
      expect((await failureOf(attempt)).code).toBe('INVALID_NAME');
    }
  });

  it.each(['', 'A', 'a|b', 'a b', 'a/b', 'x'.repeat(65), "a'; DROP TABLE documents"])(
    'refuse the collection %j',
    async (collection) => {
      const { documents } = await onePlace(open)();
      for (const attempt of [
        documents.get(collection, 'a'),
        documents.put(collection, 'a', 1),
        documents.delete(collection, 'a'),
        documents.list(collection),
      ]) {
        expect((await failureOf(attempt)).code).toBe('INVALID_NAME');
      }
    },
  );

  it.each([0, -1, 1.5, 1001, Number.NaN])('refuse a page of %j', async (limit) => {
    const { documents } = await onePlace(open)();
    expect((await failureOf(documents.list('things', { limit }))).code).toBe('INVALID_OPTIONS');
  });

  it('stay when an agent key is deleted', async () => {
    const storage = await onePlace(open)();
    await storage.documents.put('things', 'a', 1);
    await storage.deleteKey('a');
    expect((await storage.documents.get('things', 'a'))?.value).toBe(1);
  });
}
