/** The state of a chat that its commands share, and how they reply. */

import type { PermissionMode } from '../../protocol/turn.ts';
import type { SessionApi } from '../../session/api.ts';
import type { ShownTurn } from '../agent/shown-turn.ts';
import type { CellRunner } from '../cells/cell-runner.ts';
import { reportFailure } from '../command-errors.ts';
import { type Column, CommandOutput } from '../command-output.ts';
import type { StorageAccess, StorageTarget } from '../context.ts';
import { escapeControls } from '../format.ts';
import type { LineSource } from '../terminal/line-input.ts';
import type { Terminal } from '../terminal/terminal.ts';

export interface ChatState {
  readonly session: SessionApi;
  readonly stores: StorageAccess;
  readonly storage: StorageTarget;
  readonly placeFlags: string;
  readonly cells: CellRunner;
  readonly lines: LineSource;
  readonly output: ChatOutput;
  /** A person is there: to be prompted, and asked. */
  readonly interactive: boolean;
  /** What code runs in: `in the sandbox`, or not. */
  readonly place: string;
  /** Shell commands are run without asking. */
  readonly autoSh: boolean;
  /** Lines that are no command are Python. */
  readonly autoPy: boolean;
  readonly terminal: Terminal;
  readonly json: boolean;
  /** Aborted when the chat ends. */
  readonly leaving: AbortSignal;
  /** The coding agent that lines are for that are no command. */
  agent: ChosenAgent | undefined;
  /** What they have set up for it. */
  readonly profile: string | undefined;
  /** The one that runs: Ctrl-C stops it. */
  turn: ShownTurn | undefined;
  /** The cells of this chat, the newest last, as far as they can be undone. */
  readonly undoStack: UndoEntry[];
  /** Work of the host that Ctrl-C stops. */
  activeTask: AbortController | undefined;
  /** Whether the agent stays when the chat ends. */
  persistent: boolean;
}

interface ChosenAgent {
  readonly name: string;
  readonly mode?: PermissionMode | undefined;
}

export interface UndoEntry {
  /** As it was typed. */
  readonly line: string;
  /** It changed nothing, so there is nothing to undo. */
  readonly readOnly: boolean;
}

/** How many cells can be undone. */
export const MAX_UNDO = 5;

export type ChatOutcome = 'done' | 'failed' | 'leave';

export function pushUndo(state: ChatState, cell: UndoEntry): void {
  state.undoStack.push(cell);
  if (state.undoStack.length > MAX_UNDO) state.undoStack.shift();
}

/** A reply as JSON. `command` is the command that it answers. */
interface ChatReply {
  readonly command: string;
  readonly [fact: string]: unknown;
}

export class ChatOutput {
  readonly #terminal: Terminal;
  readonly #json: boolean;
  readonly #report: CommandOutput;

  constructor(terminal: Terminal, { json }: { json: boolean }) {
    this.#terminal = terminal;
    this.#json = json;
    this.#report = new CommandOutput(terminal, { json, shape: (reply) => ({ type: 'reply', ...reply }) });
  }

  /** For what a command of the same name does outside of a chat. */
  forCommand(command: string): CommandOutput {
    const shape = (facts: object) => ({ type: 'reply', command, ...facts });
    return new CommandOutput(this.#terminal, { json: this.#json, shape, successToStderr: true });
  }

  /** The result that was asked for. */
  async result(reply: ChatReply, text: string): Promise<void> {
    await this.#report.result(reply, text);
  }

  async table(reply: ChatReply, columns: readonly Column[], rows: readonly (readonly string[])[]): Promise<void> {
    await this.#report.table(reply, columns, rows);
  }

  /** What was done: not a part of any output. */
  async note(reply: ChatReply, text: string, warnings: readonly string[] = []): Promise<void> {
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
