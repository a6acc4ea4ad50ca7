/** Text on a screen that is too narrow for it: broken between words, the lines below the first indented. */

import { columnsOf } from './table.ts';

export interface WrapOptions {
  /** Of the screen. */
  readonly width: number;
  /** How far the lines below the first stand in. */
  readonly indent: number;
}

/** Spaces inside a line stay as they are. A word that no line has room for stays whole: a path can still be copied. */
export function wrapToLines(text: string, { width, indent }: WrapOptions): string[] {
  const lines: string[] = [];
  let line = '';
  for (const part of text.split(/(?<=\S)(?= )/)) {
    if (line.trim() !== '' && columnsOf(line + part) > width) {
      lines.push(line);
      line = ' '.repeat(indent) + part.trimStart();
    } else line += part;
  }
  return [...lines, line];
}
