import { describe, expect, it } from 'vitest';
import { cutToWidth, displayWidth, formatTable } from './command-output.ts';

describe('tableToLines', () => {
  it('aligns columns under their titles, numbers to the right', () => {
    const columns = [{ title: 'NAME' }, { title: 'SIZE', align: 'right' as const }, { title: 'VALUE' }];
    const rows = [
      ['x', '28 bytes', '1'],
      ['longer', '3 kB', "'two'"],
    ];
    expect(formatTable(columns, rows)).toEqual([
      'NAME        SIZE  VALUE',
      'x       28 bytes  1',
      "longer      3 kB  'two'",
    ]);
  });

  it('omits an empty column', () => {
    expect(formatTable([{ title: 'A' }, { title: 'B' }], [['1', '']])).toEqual(['A', '1']);
  });

  it('fits the width of the screen', () => {
    expect(formatTable([{ title: 'A' }, { title: 'B' }], [['one', 'a long text']], 10)[1]).toBe('one  a lo…');
  });

  it('shows no control characters', () => {
    expect(formatTable([{ title: 'A' }], [['\x1b[31mred\r\n\u202e']])[1]).toBe('\\u{1b}[31mred\\r\\n\\u{202e}');
  });
});

it('measures the width of text on a screen', () => {
  expect(['abc', 'é', 'e\u0301', '日本', '🎉', '\x1b[1mbold\x1b[22m'].map(displayWidth)).toEqual([3, 1, 1, 4, 2, 4]);
  expect(cutToWidth('日本語', 4)).toBe('日…');
});
