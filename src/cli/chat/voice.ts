/** How the chat speaks: in sentences to a person, in lines of JSON to a program. */

import { reportFailure } from '../failure.ts';
import { Report } from '../report.ts';
import type { Column } from '../table.ts';
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
  readonly #report: Report;

  constructor(terminal: Terminal, { json }: { json: boolean }) {
    this.#terminal = terminal;
    this.#json = json;
    this.#report = new Report(terminal, { json, shape: (reply) => ({ type: 'reply', ...reply }) });
  }

  /** For what a command of the same name does outside of a chat. */
  about(command: string): Report {
    const shape = (facts: object) => ({ type: 'reply', command, ...facts });
    return new Report(this.#terminal, { json: this.#json, shape, aside: true });
  }

  /** What was asked for. */
  async answer(reply: Reply, text: string): Promise<void> {
    await this.#report.answer(reply, text);
  }

  async table(reply: Reply, columns: readonly Column[], rows: readonly (readonly string[])[]): Promise<void> {
    await this.#report.table(reply, columns, rows);
  }

  /** What was done: not a part of any output. */
  async note(reply: Reply, text: string, warnings: readonly string[] = []): Promise<void> {
    await this.#report.nothing(reply, text);
    await this.#report.warn(warnings);
  }

  /** A shell command, as it will run. */
  async command(text: string): Promise<void> {
    const lines = text.split('\n').map((line, index) => `${index === 0 ? '$' : ' '} ${toPlain(line)}`);
    await this.#terminal.errLines(lines.join('\n'), 'bold');
  }

  async fail(error: unknown): Promise<void> {
    await reportFailure(this.#terminal, error, { json: this.#json });
  }
}
