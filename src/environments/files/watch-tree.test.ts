import { expect, it } from 'vitest';
import { WatchBudget } from './watch-tree.ts';

it('one user cannot use up all watches', () => {
  const share = new WatchBudget();
  let taken = 0;
  while (taken < 100_000 && share.takeFolder('mallory')) taken++;
  expect(taken).toBe(5000);
  expect(share.takeFolder('victoria')).toBe(true);
  share.giveFolder('mallory');
  expect(share.takeFolder('mallory')).toBe(true);
});
