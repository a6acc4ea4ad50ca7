/** Plain lines of a chat go to a coding agent, once one is chosen. */

import { PermissionMode } from '../../protocol/turn.ts';
import { agentIn } from '../agent/agent-in.ts';
import { agentAt } from '../agent/agent-named.ts';
import { AgentTurn } from '../agent/agent-turn.ts';
import { Exit, UsageError } from '../command-errors.ts';
import type { Desk, Outcome } from './desk.ts';

/** `/agent` tells who it is, `/agent NAME [MODE]` chooses, `/agent off` ends it. */
export async function agent(desk: Desk, argument: string): Promise<Outcome> {
  const [name, mode, ...more] = argument.split(/\s+/).filter((word) => word !== '');
  if (more.length > 0) throw new UsageError('/agent takes a name and a mode.', 'Type /agent claude auto-edit.');
  if (name === 'off') desk.agent = undefined;
  else if (name !== undefined) {
    const wanted = modeOf(mode);
    const session = agentIn(desk.session);
    desk.agent = { name: await agentAt(session, name), mode: wanted };
    // Ready when the first line is typed; why it could not be is told with that.
    void session.warmAgent(desk.agent.name).catch(() => {});
  }
  const { agent: chosen } = desk;
  const mood = chosen?.mode === undefined ? '' : ` in the mode ${chosen.mode}`;
  const nobody = desk.autoPy ? 'Plain lines are Python.' : 'No coding agent is chosen: /agent claude does that.';
  const text = chosen ? `Plain lines go to ${chosen.name}${mood}.` : nobody;
  await desk.voice.note({ command: 'agent', agent: chosen?.name ?? null, mode: chosen?.mode ?? null }, text);
  return 'done';
}

export async function promptAgent(desk: Desk, prompt: string): Promise<Outcome> {
  const { terminal, lines, json, leaving, agent: chosen } = desk;
  const turn = new AgentTurn({ session: agentIn(desk.session), terminal, lines, json, leaving });
  desk.turn = turn;
  try {
    const options = {
      ...(chosen && { agent: chosen.name }),
      ...(chosen?.mode && { mode: chosen.mode }),
      ...(desk.profile === undefined ? {} : { profile: desk.profile }),
    };
    const exitCode = await turn.run(prompt, options);
    // Its own cells are the last ones by now: what /undo takes back has no line of this chat.
    desk.past.length = 0;
    return exitCode === Exit.ok ? 'done' : 'failed';
  } finally {
    desk.turn = undefined;
  }
}

function modeOf(word: string | undefined): PermissionMode | undefined {
  if (word === undefined) return undefined;
  const mode = PermissionMode.safeParse(word);
  if (mode.success) return mode.data;
  throw new UsageError(`${JSON.stringify(word)} is no mode.`, `The modes are ${PermissionMode.options.join(', ')}.`);
}
