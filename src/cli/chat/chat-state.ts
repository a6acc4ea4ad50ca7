/** The state of a chat that its commands share, and how they reply. */

import type { PermissionMode } from '../../protocol/turn.ts';
import type { SessionApi } from '../../session/api.ts';
import type { ShownTurn } from '../agent/shown-turn.ts';
import type { Backend, StorageTarget } from '../backend/backend.ts';
import type { CellRunner } from '../cells/cell-runner.ts';
import { reportFailure } from '../command-errors.ts';
import { type Column, CommandOutput } from '../command-output.ts';
import { escapeControls } from '../format.ts';
import type { LineSource } from '../terminal/line-input.ts';
import type { CliTerminal } from '../terminal/terminal.ts';

export interface ChatState {
  readonly session: SessionApi;
  readonly backend: Backend;
  readonly storage: StorageTarget;
  readonly targetFlags: string;
  readonly cells: CellRunner;
  readonly lines: LineSource;
  readonly output: ChatCommandOutput;
  /** Whether a person can be prompted and asked. */
  readonly interactive: boolean;
  /** Where code runs, such as `in the sandbox`. */
  readonly where: string;
  /** Shell commands are run without asking. */
  readonly autoSh: boolean;
  /** Lines that are not commands are Python. */
  readonly autoPy: boolean;
  readonly terminal: CliTerminal;
  readonly json: boolean;
  /** Aborts when the chat ends. */
  readonly leaving: AbortSignal;
  /** The coding agent that gets lines that are not commands. */
  agent: ChosenAgent | undefined;
  /** The user's profile for the agent. */
  readonly profile: string | undefined;
  /** The running turn, which Ctrl-C stops. */
  turn: ShownTurn | undefined;
  /** The undoable cells of this chat, newest last. */
  readonly undoStack: UndoEntry[];
  /** Work of the host that Ctrl-C aborts. */
  activeTask: AbortController | undefined;
  /** Whether the kernel and its files are kept when the chat ends. */
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

export class ChatCommandOutput {
  readonly #terminal: CliTerminal;
  readonly #json: boolean;
  readonly #report: CommandOutput;

  constructor(terminal: CliTerminal, { json }: { json: boolean }) {
    this.#terminal = terminal;
    this.#json = json;
    this.#report = new CommandOutput(terminal, { json, shape: (reply) => ({ type: 'reply', ...reply }) });
  }

  /** Output for a command that also exists outside a chat. */
  forCommand(command: string): CommandOutput {
    const shape = (facts: object) => ({ type: 'reply', command, ...facts });
    return new CommandOutput(this.#terminal, { json: this.#json, shape, successToStderr: true });
  }

  /** Prints the requested result. */
  async result(reply: ChatReply, text: string): Promise<void> {
    await this.#report.result(reply, text);
  }

  async table(reply: ChatReply, columns: readonly Column[], rows: readonly (readonly string[])[]): Promise<void> {
    await this.#report.table(reply, columns, rows);
  }

  /** Reports an action; not part of any output. */
  async note(reply: ChatReply, text: string, warnings: readonly string[] = []): Promise<void> {
    await this.#report.empty(reply, text);
    await this.#report.warn(warnings);
  }

  /** Prints a shell command as it will run. */
  async command(text: string): Promise<void> {
    const lines = text.split('\n').map((line, index) => `${index === 0 ? '$' : ' '} ${escapeControls(line)}`);
    await this.#terminal.errLines(lines.join('\n'), 'bold');
  }

  async fail(error: unknown): Promise<void> {
    await reportFailure(this.#terminal, error, { json: this.#json });
  }
}
