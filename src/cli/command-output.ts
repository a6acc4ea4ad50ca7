/** The output of a command: lines and tables for a person, one JSON object for a program. */

import { stripVTControlCharacters } from 'node:util';
import { escapeControls } from './format.ts';
import type { CliTerminal } from './terminal/terminal.ts';

interface CommandOutputOptions {
  readonly json?: boolean;
  /** Shapes the facts for a program. */
  readonly shape?: (facts: object) => object;
  /** `success` goes to stderr, because it is not part of the output. */
  readonly successToStderr?: boolean;
}

export class CommandOutput {
  readonly terminal: CliTerminal;
  readonly json: boolean;
  readonly #options: CommandOutputOptions;

  constructor(terminal: CliTerminal, options: CommandOutputOptions) {
    this.terminal = terminal;
    this.json = options.json === true;
    this.#options = options;
  }

  /** Prints the requested result. */
  async result(facts: object, text: string): Promise<void> {
    if (!(await this.printJson(facts))) await this.terminal.outLines(text);
  }

  /** Prints one line per row that has a text: its title and the text. */
  async facts(facts: object, rows: readonly (readonly [title: string, text: string | undefined])[]): Promise<void> {
    const width = Math.max(...rows.map(([title]) => title.length));
    const lines = rows.flatMap(([title, text]) => (text ? [`${title.padEnd(width)}  ${escapeControls(text)}`] : []));
    await this.result(facts, lines.join('\n'));
  }

  async table(facts: object, columns: readonly Column[], rows: readonly (readonly string[])[]): Promise<void> {
    if (await this.printJson(facts)) return;
    const [titles = '', ...lines] = formatTable(columns, rows, this.terminal.columns);
    await this.terminal.outLines(titles, 'bold');
    await this.terminal.outLines(lines.join('\n'));
  }

  /** Reports a completed action. */
  async success(facts: object, text: string): Promise<void> {
    if (await this.printJson(facts)) return;
    await (this.#options.successToStderr ? this.terminal.errLines(text, 'dim') : this.terminal.outLines(text));
  }

  /** For a person only: a program gets the same from the facts. */
  async note(text: string): Promise<void> {
    if (!this.json) await this.terminal.errLines(text, 'dim');
  }

  /** Shows progress: one changing line on a screen, otherwise one line each. For a person only. */
  readonly progress = (text: string): void => {
    if (!this.json) this.terminal.progress(text);
  };

  /** Reports that there is nothing to show, and how to change that. */
  async empty(facts: object, text: string): Promise<void> {
    if (!(await this.printJson(facts))) await this.terminal.errLines(text, 'dim');
  }

  /** For a person only: a program gets the same from the facts. */
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

/** The first row is the title. Omits columns without content. `width` is the screen's. */
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

/** Combining marks and joiners take no column; most East Asian characters and emoji take two. */
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

/** Cuts text that does not fit and adds an ellipsis. */
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
  /** The width of the screen. */
  readonly width: number;
  /** The indentation of all lines after the first. */
  readonly indent: number;
}

/** Keeps spaces inside a line. Does not split a word that is too long, so that a path can still be copied. */
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
