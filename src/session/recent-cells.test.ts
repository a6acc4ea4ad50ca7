import { expect, test } from 'vitest';
import { RecentCells } from './recent-cells.ts';

const cell = (execution: number, code = 'x') => ({ execution, code, status: 'ok' }) as const;

test('the newest thousand are there, in their order, however many there were', () => {
  const cells = new RecentCells([cell(1), cell(2)]);
  for (let execution = 3; execution <= 4321; execution++) {
    cells.add(cell(execution));
    const from = Math.max(1, execution - 999);
    expect(cells.all[0]?.execution).toBe(from);
    expect(cells.all).toHaveLength(execution - from + 1);
  }
  expect(cells.all.map(({ execution }) => execution)).toEqual(Array.from({ length: 1000 }, (_, at) => 3322 + at));
});

test('cells that are large together do not all stay in memory, and the newest does whatever its size', () => {
  const cells = new RecentCells([]);
  const large = 'x'.repeat(20 * 1024 * 1024);
  for (let execution = 1; execution <= 3; execution++) cells.add(cell(execution, large));
  expect(cells.all.map(({ execution }) => execution)).toEqual([3]);
  cells.add(cell(4, 'small'));
  expect(cells.all.map(({ execution }) => execution)).toEqual([3, 4]);
  cells.add(cell(5, large + large));
  expect(cells.all.map(({ execution }) => execution)).toEqual([5]);
});
