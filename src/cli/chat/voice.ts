/** How the chat speaks: in sentences to a person, in lines of JSON to a program. */

import { reportFailure } from '../failure.ts';
import { type Column, tableToLines } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { toPlain } from '../texts.ts';

/** What a program is told. `command` is the one that is answered. */
export interface Reply {
  readonly command: string;
  readonly [fact: string]: unknown;
}

export class Voice {
  readonly #terminal: Terminal;
  readonly #json: boolean;

  constructor(terminal: Terminal, { json }: { json: boolean }) {
    this.#terminal = terminal;
    this.#json = json;
  }

  /** What was asked for. */
  async answer(reply: Reply, text: string): Promise<void> {
    if (!(await this.#tellProgram(reply))) await this.#terminal.outLines(text);
  }

  async table(reply: Reply, columns: readonly Column[], rows: readonly (readonly string[])[]): Promise<void> {
    if (await this.#tellProgram(reply)) return;
    const [titles = '', ...lines] = tableToLines(columns, rows, this.#terminal.columns);
    await this.#terminal.outLines(titles, 'bold');
    await this.#terminal.outLines(lines.join('\n'));
  }

  /** What was done: not a part of any output. */
  async note(reply: Reply, text: string, warnings: readonly string[] = []): Promise<void> {
    if (await this.#tellProgram(reply)) return;
    await this.#terminal.errLines(text, 'dim');
    if (warnings.length > 0) await this.#terminal.errLines(warnings.join('\n'), 'yellow');
  }

  /** A shell command, as it will run. */
  async command(text: string): Promise<void> {
    const lines = text.split('\n').map((line, index) => `${index === 0 ? '$' : ' '} ${toPlain(line)}`);
    await this.#terminal.errLines(lines.join('\n'), 'bold');
  }

  async fail(error: unknown): Promise<void> {
    await reportFailure(this.#terminal, error, { json: this.#json });
  }

  async #tellProgram(reply: Reply): Promise<boolean> {
    if (this.#json) await this.#terminal.outLines(JSON.stringify({ type: 'reply', ...reply }));
    return this.#json;
  }
}
