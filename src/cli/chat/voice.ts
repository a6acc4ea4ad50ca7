/** How the chat speaks: in sentences to a person, in lines of JSON to a program. */

import { reportFailure } from '../command-errors.ts';
import { type Column, CommandOutput } from '../command-output.ts';
import { escapeControls } from '../format.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** What a program is told. `command` is the one that is answered. */
export interface Reply {
  readonly command: string;
  readonly [fact: string]: unknown;
}

export class Voice {
  readonly #terminal: Terminal;
  readonly #json: boolean;
  readonly #report: CommandOutput;

  constructor(terminal: Terminal, { json }: { json: boolean }) {
    this.#terminal = terminal;
    this.#json = json;
    this.#report = new CommandOutput(terminal, { json, shape: (reply) => ({ type: 'reply', ...reply }) });
  }

  /** For what a command of the same name does outside of a chat. */
  about(command: string): CommandOutput {
    const shape = (facts: object) => ({ type: 'reply', command, ...facts });
    return new CommandOutput(this.#terminal, { json: this.#json, shape, successToStderr: true });
  }

  /** What was asked for. */
  async answer(reply: Reply, text: string): Promise<void> {
    await this.#report.result(reply, text);
  }

  async table(reply: Reply, columns: readonly Column[], rows: readonly (readonly string[])[]): Promise<void> {
    await this.#report.table(reply, columns, rows);
  }

  /** What was done: not a part of any output. */
  async note(reply: Reply, text: string, warnings: readonly string[] = []): Promise<void> {
    await this.#report.empty(reply, text);
    await this.#report.warn(warnings);
  }

  /** A shell command, as it will run. */
  async command(text: string): Promise<void> {
    const lines = text.split('\n').map((line, index) => `${index === 0 ? '$' : ' '} ${escapeControls(line)}`);
    await this.#terminal.errLines(lines.join('\n'), 'bold');
  }

  async fail(error: unknown): Promise<void> {
    await reportFailure(this.#terminal, error, { json: this.#json });
  }
}
