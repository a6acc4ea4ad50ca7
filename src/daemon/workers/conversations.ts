/** What an agent finds before its turn, and what is kept of it after: its profile, and its conversation. */

import type { z } from 'zod';
import {
  type ReadTranscript,
  SetupLine,
  type SetupSession,
  TranscriptLine,
  transcriptPieces,
} from '../../protocol/agent/runner.ts';
import { digest } from '../sessions/requests.ts';
import type { TurnTask } from '../turns/contract.ts';
import type { Place } from './contract.ts';
import { runCommand } from './runner-commands.ts';

export class Conversations {
  /** What was laid out in a place: the same again costs nothing. */
  readonly #laid = new WeakMap<Place, string>();

  /** Lays out the profile, and the conversation to go on with where the agent has none that is newer. */
  async prepare(place: Place, task: TurnTask): Promise<void> {
    const { profile, conversation, signal } = task;
    const laid = digest(task.agent, profile);
    const known = this.#laid.get(place);
    const empty = Object.keys(profile).length === 0 && conversation === undefined;
    if (known === laid || (known === undefined && empty)) return;
    const kept = conversation === undefined ? undefined : await task.readTranscript(conversation);
    const head: SetupSession = {
      ...(await ofPlace(place, task)),
      profile,
      ...(kept && conversation !== undefined ? { conversation } : {}),
    };
    const pieces = kept ? [...transcriptPieces(kept.text)] : [];
    await runCommand(place, { command: 'setup-session', input: linesOf([head, ...pieces]), line: SetupLine, signal });
    this.#laid.set(place, laid);
  }

  /** Keeps the conversation as the agent has it now. */
  async keep(place: Place, task: TurnTask, conversation: string): Promise<void> {
    const asked: ReadTranscript = { ...(await ofPlace(place, task)), conversation };
    const lines = await runCommand(place, {
      command: 'read-transcript',
      input: linesOf([asked]),
      line: TranscriptLine,
    });
    const end = lines.at(-1);
    if (end?.type !== 'end' || !end.found) return;
    await task.keepTranscript(conversation, lines.map(textOf).join(''));
    // From here on the agent has it.
    this.#laid.set(place, digest(task.agent, task.profile));
  }
}

function textOf(line: z.output<typeof TranscriptLine>): string {
  return line.type === 'text' ? line.text : '';
}

async function ofPlace({ cwd, homeDir, programDir }: Place, { agent }: TurnTask) {
  return { agent, cwd, homeDir, programDir: await programDir(agent) };
}

function linesOf(lines: readonly object[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}
