/** Rows in columns, as wide as what is in them; the last column is cut where the screen ends. */

import { stripVTControlCharacters } from 'node:util';
import { toPlain } from './texts.ts';

export interface Column {
  readonly title: string;
  readonly align?: 'left' | 'right';
}

/** The title row comes first. Columns without anything in them are left out. `width` is that of the screen. */
export function tableToLines(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width = Infinity,
): string[] {
  const used = columns.map((_, index) => rows.some((row) => (row[index] ?? '') !== ''));
  const keep = <T>(all: readonly T[]) => all.filter((_, index) => used[index]);
  const table = [columns.map(({ title }) => title), ...rows.map((row) => row.map(toPlain))].map(keep);
  const shown = keep(columns);
  const widths = shown.map((_, index) => Math.max(...table.map((row) => columnsOf(row[index] ?? ''))));
  return table.map((row) => {
    const cells = row.map((cell, index) => pad(cell, widths[index] ?? 0, shown[index]?.align));
    return cut(cells.join('  ').trimEnd(), width);
  });
}

/** Marks and joiners take no room, and most of what East Asia writes, and pictures, take two columns. */
export function columnsOf(text: string): number {
  let columns = 0;
  for (const character of stripVTControlCharacters(text)) {
    if (/\p{M}|[\u200b-\u200d]/u.test(character)) continue;
    columns += WIDE.test(character) ? 2 : 1;
  }
  return columns;
}

const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;

function pad(cell: string, width: number, align: Column['align'] = 'left'): string {
  const space = ' '.repeat(Math.max(0, width - columnsOf(cell)));
  return align === 'right' ? space + cell : cell + space;
}

/** What does not fit ends in an ellipsis. */
export function cut(text: string, width: number): string {
  if (columnsOf(text) <= width) return text;
  let kept = '';
  let columns = 1;
  for (const character of text) {
    columns += columnsOf(character);
    if (columns > width) break;
    kept += character;
  }
  return `${kept}…`;
}
