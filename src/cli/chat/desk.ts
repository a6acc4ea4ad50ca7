/** What the commands of a chat work with. */

import type { PermissionMode } from '../../protocol/turn.ts';
import type { SessionApi } from '../../session/api.ts';
import type { AgentTurn } from '../agent/agent-turn.ts';
import type { CellRunner } from '../cells/cell-runner.ts';
import type { StorageAccess, StorageTarget } from '../context.ts';
import type { LineSource } from '../terminal/line-input.ts';
import type { Terminal } from '../terminal/terminal.ts';
import type { Voice } from './voice.ts';

export interface Desk {
  readonly session: SessionApi;
  readonly stores: StorageAccess;
  readonly storage: StorageTarget;
  readonly placeFlags: string;
  readonly cells: CellRunner;
  readonly lines: LineSource;
  readonly voice: Voice;
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
  /** Aborted where the chat is left. */
  readonly leaving: AbortSignal;
  /** The coding agent that lines are for that are no command. */
  agent: ChosenAgent | undefined;
  /** What they have set up for it. */
  readonly profile: string | undefined;
  /** The one that runs: Ctrl-C stops it. */
  turn: AgentTurn | undefined;
  /** The cells of this chat, the newest last, as far as they can be undone. */
  readonly past: PastCell[];
  /** Work of the host that Ctrl-C stops. */
  working: AbortController | undefined;
  /** Whether the agent stays when the chat ends. */
  kept: boolean;
}

export interface ChosenAgent {
  readonly name: string;
  readonly mode?: PermissionMode | undefined;
}

export interface PastCell {
  /** As it was typed. */
  readonly line: string;
  /** It only looked, so that nobody thinks of it as something to undo. */
  readonly looked: boolean;
}

/** How many cells can be undone. */
export const UNDO = 5;

export type Outcome = 'done' | 'failed' | 'leave';

export function remember(desk: Desk, cell: PastCell): void {
  desk.past.push(cell);
  if (desk.past.length > UNDO) desk.past.shift();
}
