import { expect, it } from 'vitest';
import { changesBetween, changesToText } from './state-commands.ts';

const variable = (name: string, preview: string) => ({ name, type: 'int', size: 28, preview });

it('shows what is gone, what is restored, and what has changed', () => {
  const before = [variable('same', '1'), variable('gone', '2'), variable('other', '3')];
  const after = [variable('same', '1'), variable('other', '4'), variable('back', '5')];
  const changes = changesBetween(before, after);
  expect(changes).toEqual([
    { name: 'gone', before: '2' },
    { name: 'other', before: '3', after: '4' },
    { name: 'back', after: '5' },
  ]);
  expect(changesToText(changes)).toBe('gone is gone, other: 3 → 4, back is 5 again.');
});

it('notices a change of length or type with the same preview', () => {
  const long = { name: 'x', type: 'list', size: 900, length: '100', preview: '[1, …' };
  expect(changesBetween([long], [{ ...long, length: '99' }])).toHaveLength(1);
  expect(changesBetween([long], [{ ...long, type: 'tuple' }])).toHaveLength(1);
  expect(changesBetween([long], [long])).toEqual([]);
  expect(changesToText([])).toBe('No variable changed.');
});

it('names the first of many, and shortens long values', () => {
  const many = Array.from({ length: 10 }, (_, index) => ({ name: `x${index}`, before: 'y' }));
  expect(changesToText(many)).toMatch(/^x0 is gone, .*x7 is gone, and 2 more\.$/);
  expect(changesToText([{ name: 'x', before: 'a'.repeat(80), after: '\x1b[31m' }])).toBe(
    `x: ${'a'.repeat(23)}… → \\u{1b}[31m.`,
  );
});
