/** Lists of many sessions: page by page, each once, while others are made. */

import { expect, test } from 'vitest';
import type { SessionQuery } from '../../../src/protocol/session-info.ts';
import { newPlace, openSessionManager, upTo, useRedis } from './session-managers.ts';

useRedis();
const COUNT = 250;

test.each(['file', 'redis'] as const)('every session is listed exactly once, in %s storage', async (kind) => {
  const { manager } = await openSessionManager(await newPlace(kind));
  const owners = ['local', 'ann~000000000000'];
  const make = async (number: number) => {
    const labels = { third: String(number % 3) };
    const { session } = await manager.create(owners[number % 2] ?? '', { agentKey: `k${number}`, labels });
    return session.id;
  };
  const ids = await Promise.all(upTo(COUNT).map(make));
  const pagesOf = async (query: SessionQuery, between = async () => {}) => {
    const found: string[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await manager.list({ limit: 7, ...query, ...(cursor === undefined ? {} : { cursor }) });
      found.push(...page.sessions.map(({ id }) => id));
      cursor = page.next;
      if (cursor === undefined) return found;
      expect(page.sessions).toHaveLength(query.limit ?? 7);
      await between();
    }
  };
  let made = COUNT;
  const during = await pagesOf({}, async () => {
    if (made < COUNT + 30) await Promise.all([make(++made), make(++made)]);
  });
  expect(made).toBe(COUNT + 30);
  expect(new Set(during).size).toBe(during.length);
  expect(ids.filter((id) => !during.includes(id))).toEqual([]);
  expect(during).toEqual(during.toSorted());
  const all = await pagesOf({ limit: 100 });
  expect(all).toHaveLength(COUNT + 30);
  const mine = await pagesOf({ ownerId: owners[1], labels: { third: '0' } });
  const expected = upTo(COUNT + 30).filter((number) => number % 2 === 1 && number % 3 === 0);
  expect(mine).toHaveLength(expected.length);
  expect(await pagesOf({ agentKey: 'k280', limit: 1 })).toHaveLength(1);
});

test('sessions with a large environment come in short pages, and one that is larger is refused', async () => {
  const { manager } = await openSessionManager(await newPlace('file'));
  const make = (number: number, size: number) =>
    manager.create('local', { agentKey: `k${number}`, env: { A: 'x'.repeat(size) } });
  const made = await Promise.all(upTo(40).map((number) => make(number, 100_000)));
  const found: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await manager.list({ limit: 1000, ...(cursor === undefined ? {} : { cursor }) });
    expect(JSON.stringify(page).length).toBeLessThan(2_000_000);
    found.push(...page.sessions.map(({ id }) => id));
    cursor = page.next;
    if (cursor === undefined) break;
  }
  expect(found.toSorted()).toEqual(made.map(({ session }) => session.id).toSorted());
  const more = { env: { A: 'x'.repeat(200_000) } };
  await expect(make(41, 200_000)).rejects.toThrow('128 KB');
  await expect(manager.update(found[0] ?? '', more)).rejects.toThrow('128 KB');
});
