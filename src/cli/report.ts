/** What a command tells: lines and tables to a person, one object to a program. */

import { type Column, tableToLines } from './table.ts';
import type { Terminal } from './terminal.ts';

export interface ReportOptions {
  readonly json: boolean;
  /** What a program gets of the facts. */
  readonly shape?: (facts: object) => object;
  /** What was done is no part of any output: it goes to the screen. */
  readonly aside?: boolean;
}

export class Report {
  readonly terminal: Terminal;
  readonly json: boolean;
  readonly #options: ReportOptions;

  constructor(terminal: Terminal, options: ReportOptions) {
    this.terminal = terminal;
    this.json = options.json;
    this.#options = options;
  }

  /** What was asked for. */
  async answer(facts: object, text: string): Promise<void> {
    if (!(await this.tellProgram(facts))) await this.terminal.outLines(text);
  }

  async table(facts: object, columns: readonly Column[], rows: readonly (readonly string[])[]): Promise<void> {
    if (await this.tellProgram(facts)) return;
    const [titles = '', ...lines] = tableToLines(columns, rows, this.terminal.columns);
    await this.terminal.outLines(titles, 'bold');
    await this.terminal.outLines(lines.join('\n'));
  }

  /** What was done. */
  async done(facts: object, text: string): Promise<void> {
    if (await this.tellProgram(facts)) return;
    await (this.#options.aside ? this.terminal.errLines(text, 'dim') : this.terminal.outLines(text));
  }

  /** What a person wants to know besides; a program has it in the facts. */
  async aside(text: string): Promise<void> {
    if (!this.json) await this.terminal.errLines(text, 'dim');
  }

  /** That there is nothing to show, and how to change that. */
  async nothing(facts: object, text: string): Promise<void> {
    if (!(await this.tellProgram(facts))) await this.terminal.errLines(text, 'dim');
  }

  /** A person is told; for a program it is in the facts. */
  async warn(lines: readonly string[]): Promise<void> {
    if (!this.json && lines.length > 0) await this.terminal.errLines(lines.join('\n'), 'yellow');
  }

  /** True where a program was told, so that nothing else needs to be written. */
  async tellProgram(facts: object): Promise<boolean> {
    const { shape = (same: object) => same } = this.#options;
    if (this.json) await this.terminal.outLines(JSON.stringify(shape(facts)));
    return this.json;
  }
}
