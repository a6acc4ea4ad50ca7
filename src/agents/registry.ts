/** All known agents. An adapter is loaded when it is used. */

import { CellaError } from '../protocol/errors.ts';
import type { AgentName } from '../protocol/turn.ts';
import type { AgentAdapter } from './agent-adapter.ts';
import { claudeProgram } from './claude/program.ts';
import type { AgentProgram } from './installed-programs.ts';

interface RegisteredAgent {
  readonly program: AgentProgram;
  load(): Promise<AgentAdapter>;
}

const registeredAgents: ReadonlyMap<AgentName, RegisteredAgent> = new Map([
  ['claude', { program: claudeProgram, load: async () => (await import('./claude/adapter.ts')).claude }],
]);

export const agentNames: readonly AgentName[] = [...registeredAgents.keys()];

export const agentPrograms: readonly AgentProgram[] = [...registeredAgents.values()].map(({ program }) => program);

export function agentProgram(name: AgentName): AgentProgram {
  return find(name).program;
}

export async function loadAdapter(name: AgentName): Promise<AgentAdapter> {
  return await find(name).load();
}

function find(name: AgentName): RegisteredAgent {
  const one = registeredAgents.get(name);
  if (one) return one;
  throw new CellaError('AGENT_UNKNOWN', `There is no agent ${JSON.stringify(name.slice(0, 80))}.`, {
    advice: `Use one of these: ${agentNames.join(', ')}.`,
    details: { agents: agentNames },
  });
}
