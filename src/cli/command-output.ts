/** What a command prints: lines and tables for a person, one JSON object for a program. */

import { stripVTControlCharacters } from 'node:util';
import { escapeControls } from './format.ts';
import type { Terminal } from './terminal/terminal.ts';

interface CommandOutputOptions {
  readonly json?: boolean;
  /** Shapes the facts for a program. */
  readonly shape?: (facts: object) => object;
  /** `success` goes to stderr, because it is not part of the output. */
  readonly successToStderr?: boolean;
}

export class CommandOutput {
  readonly terminal: Terminal;
  readonly json: boolean;
  readonly #options: CommandOutputOptions;

  constructor(terminal: Terminal, options: CommandOutputOptions) {
    this.terminal = terminal;
    this.json = options.json === true;
    this.#options = options;
  }

  /** The result that was asked for. */
  async result(facts: object, text: string): Promise<void> {
    if (!(await this.printJson(facts))) await this.terminal.outLines(text);
  }

  async table(facts: object, columns: readonly Column[], rows: readonly (readonly string[])[]): Promise<void> {
    if (await this.printJson(facts)) return;
    const [titles = '', ...lines] = formatTable(columns, rows, this.terminal.columns);
    await this.terminal.outLines(titles, 'bold');
    await this.terminal.outLines(lines.join('\n'));
  }

  /** What was done. */
  async success(facts: object, text: string): Promise<void> {
    if (await this.printJson(facts)) return;
    await (this.#options.successToStderr ? this.terminal.errLines(text, 'dim') : this.terminal.outLines(text));
  }

  /** For a person only: a program has it in the facts. */
  async note(text: string): Promise<void> {
    if (!this.json) await this.terminal.errLines(text, 'dim');
  }

  /** A step of long work: one line that changes at a screen, else a line each. For a person only. */
  readonly progress = (text: string): void => {
    // A failed write fails again with the result, and is reported there.
    if (!this.json) void this.terminal.status(text).catch(() => {});
  };

  /** There is nothing to show, and how to change that. */
  async empty(facts: object, text: string): Promise<void> {
    if (!(await this.printJson(facts))) await this.terminal.errLines(text, 'dim');
  }

  /** For a person only: a program has it in the facts. */
  async warn(lines: readonly string[]): Promise<void> {
    if (!this.json && lines.length > 0) await this.terminal.errLines(lines.join('\n'), 'yellow');
  }

  /** Returns true if JSON was printed, so that nothing else is. */
  async printJson(facts: object): Promise<boolean> {
    const { shape = (same: object) => same } = this.#options;
    if (this.json) await this.terminal.outLines(JSON.stringify(shape(facts)));
    return this.json;
  }
}

export interface Column {
  readonly title: string;
  readonly align?: 'left' | 'right';
}

/** The title row comes first. Columns without anything in them are left out. `width` is that of the screen. */
export function formatTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width = Infinity,
): string[] {
  const used = columns.map((_, index) => rows.some((row) => (row[index] ?? '') !== ''));
  const keep = <T>(all: readonly T[]) => all.filter((_, index) => used[index]);
  const table = [columns.map(({ title }) => title), ...rows.map((row) => row.map(escapeControls))].map(keep);
  const shown = keep(columns);
  const widths = shown.map((_, index) => Math.max(...table.map((row) => displayWidth(row[index] ?? ''))));
  return table.map((row) => {
    const cells = row.map((cell, index) => pad(cell, widths[index] ?? 0, shown[index]?.align));
    return cutToWidth(cells.join('  ').trimEnd(), width);
  });
}

/** Marks and joiners take no room, and most of what East Asia writes, and pictures, take two columns. */
export function displayWidth(text: string): number {
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
  const space = ' '.repeat(Math.max(0, width - displayWidth(cell)));
  return align === 'right' ? space + cell : cell + space;
}

/** What does not fit ends in an ellipsis. */
export function cutToWidth(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let kept = '';
  let columns = 1;
  for (const character of text) {
    columns += displayWidth(character);
    if (columns > width) break;
    kept += character;
  }
  return `${kept}…`;
}

interface WrapOptions {
  /** Of the screen. */
  readonly width: number;
  /** How far the lines below the first stand in. */
  readonly indent: number;
}

/** Spaces inside a line stay as they are. A word that no line has room for stays whole: a path can still be copied. */
export function wrapLines(text: string, { width, indent }: WrapOptions): string[] {
  const lines: string[] = [];
  let line = '';
  for (const part of text.split(/(?<=\S)(?= )/)) {
    if (line.trim() !== '' && displayWidth(line + part) > width) {
      lines.push(line);
      line = ' '.repeat(indent) + part.trimStart();
    } else line += part;
  }
  return [...lines, line];
}
