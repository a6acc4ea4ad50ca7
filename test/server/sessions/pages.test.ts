/** Lists of many sessions: page by page, each once, while others are made. */

import { expect, test } from 'vitest';
import type { SessionQuery } from '../../../src/protocol/session-info.ts';
import { newPlace, openHost, upTo, useRedis } from './session-hosts.ts';

useRedis();
const COUNT = 250;

test.each(['file', 'redis'] as const)('no session is told twice or left out, in %s storage', async (kind) => {
  const { host } = await openHost(await newPlace(kind));
  const owners = ['local', 'ann~000000000000'];
  const make = async (number: number) => {
    const labels = { third: String(number % 3) };
    const { session } = await host.create(owners[number % 2] ?? '', { agentKey: `k${number}`, labels });
    return session.id;
  };
  const ids = await Promise.all(upTo(COUNT).map(make));
  const pagesOf = async (query: SessionQuery, between = async () => {}) => {
    const found: string[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await host.list({ limit: 7, ...query, ...(cursor === undefined ? {} : { cursor }) });
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
