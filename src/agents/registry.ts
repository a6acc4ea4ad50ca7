/** The agents that there are. What an agent needs is loaded when it is used. */

import { CellaError } from '../protocol/errors.ts';
import type { AgentName } from '../protocol/turn.ts';
import { claudeProgram } from './claude/program.ts';
import type { AgentAdapter } from './contract.ts';
import type { AgentProgram } from './programs/program.ts';

interface Known {
  readonly program: AgentProgram;
  load(): Promise<AgentAdapter>;
}

const known: ReadonlyMap<AgentName, Known> = new Map([
  ['claude', { program: claudeProgram, load: async () => (await import('./claude/adapter.ts')).claude }],
]);

export const agentNames: readonly AgentName[] = [...known.keys()];

export const agentPrograms: readonly AgentProgram[] = [...known.values()].map(({ program }) => program);

export function agentProgram(name: AgentName): AgentProgram {
  return find(name).program;
}

export async function loadAdapter(name: AgentName): Promise<AgentAdapter> {
  return await find(name).load();
}

function find(name: AgentName): Known {
  const one = known.get(name);
  if (one) return one;
  throw new CellaError('AGENT_UNKNOWN', `There is no agent ${JSON.stringify(name.slice(0, 80))}.`, {
    advice: `Use one of these: ${agentNames.join(', ')}.`,
    details: { agents: agentNames },
  });
}
