/** The name of a coding agent, as it was typed. */

import { AgentName } from '../../protocol/agent/names.ts';
import { UsageError } from '../exit.ts';

export function agentNamed(name: string): string {
  if (AgentName.safeParse(name).success) return name;
  throw new UsageError(`${JSON.stringify(name)} is no name of an agent.`, '`cella agents list` shows those there are.');
}
