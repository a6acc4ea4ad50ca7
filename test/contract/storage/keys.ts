/** Agent keys: any text up to 1024 characters, and no two of them ever meet. */

import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Storage } from '../../../src/storage/contract.ts';
import { collect, eventsOf, idsOf, type OpenStorage, onePlace, recordOf, save, textsOf } from './samples.ts';

/** Alike for a file system, for Unicode, for SQL, for a pattern or for a separator. */
const alike = [
  ['a b', 'a-b', 'a_b', 'a%b', 'a:b', 'a/b', 'a\\b', 'a\nb', 'a*b', 'a?b', 'a', 'a ', ' a', 'A', 'å', 'a\u030a', 'å'],
  ['.', '..', '../..', '/', '//', '/etc/passwd', '~', '-', '--', '.unfinished', 'cella.db', 'manifest.json', 'CON'],
  ['\ud800', '\ud801', '\ufffd', '\udc00\ud800', '😀', '😁', '\u200b', '\u0000', '\u0001', '\u2028'],
  [
    'x'.repeat(1024),
    'x'.repeat(1023),
    `${'x'.repeat(1023)}y`,
    '😀'.repeat(512),
    "'; DROP TABLE records; --",
    '"',
    '{}',
  ],
].flat();

const keys = [...new Set(alike)];

/** Leaves the key's mark in each part of a storage. */
async function mark(storage: Storage, key: string, text: string): Promise<void> {
  await storage.records.put(key, recordOf(key, { workspaceOf: text }));
  await storage.events.append(key, [text]);
  await save(storage, key, 'one', [Buffer.from(text)]);
}

async function marksOf(storage: Storage, key: string): Promise<unknown[]> {
  const record = await storage.records.get(key);
  const events = (await eventsOf(storage, key)).map(({ event }) => event);
  const found = (await idsOf(storage, key)).length > 0;
  return [
    record?.agentKey === key ? record.workspaceOf : undefined,
    events,
    found && (await textsOf(storage, key, 'one')),
  ];
}

export function keyContract(open: OpenStorage): void {
  it('that look alike never share data', async () => {
    const again = onePlace(open);
    const storage = await again();
    for (const [index, key] of keys.entries()) await mark(storage, key, `mark ${index}`);
    const other = await again();
    for (const [index, key] of keys.entries()) {
      const text = `mark ${index}`;
      expect(await marksOf(other, key), JSON.stringify(key)).toEqual([text, [text], [text]]);
    }
    expect((await collect(other.records.list())).map(({ agentKey }) => agentKey)).toEqual(keys);
    const locks = await Promise.all(keys.map((key) => storage.locks.acquire(key)));
    expect(locks.every(({ held }) => held)).toBe(true);
  });

  it('of any text keep their data', async () => {
    const storage = await onePlace(open)();
    const seen = new Map<string, string>();
    const anyKey = fc.string({
      unit: fc.nat(0xffff).map((unit) => String.fromCharCode(unit)),
      minLength: 1,
      maxLength: 1024,
    });
    await fc.assert(
      fc.asyncProperty(anyKey, async (key) => {
        fc.pre(!seen.has(key));
        expect(await marksOf(storage, key)).toEqual([undefined, [], false]);
        seen.set(key, `mark ${seen.size}`);
        await mark(storage, key, seen.get(key) ?? '');
        await using lock = await storage.locks.acquire(key);
        expect(lock.held).toBe(true);
      }),
      { numRuns: 40 },
    );
    for (const [key, text] of seen) expect(await marksOf(storage, key)).toEqual([text, [text], [text]]);
  });

  it('lose everything when their agent key is deleted, and no other key does', async () => {
    const again = onePlace(open);
    const storage = await again();
    for (const key of ['a', 'a/b', 'b']) await mark(storage, key, key);
    const lock = await storage.locks.acquire('a');
    await storage.deleteKey('a');
    await storage.deleteKey('nobody');
    const other = await again();
    expect(await marksOf(other, 'a')).toEqual([undefined, [], false]);
    for (const key of ['a/b', 'b']) expect(await marksOf(other, key)).toEqual([key, [key], [key]]);
    expect(await other.events.append('a', ['again'])).toBe(1);
    expect(lock.held).toBe(true);
  });
}
