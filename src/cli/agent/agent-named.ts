/** The name of a coding agent, as it was typed, and whether there is one of that name. */

import type { CodingAgent } from '../../protocol/api/agent-routes.ts';
import { CellaError } from '../../protocol/errors.ts';
import { AgentName } from '../../protocol/turn.ts';
import type { AgentApi } from '../../session/api.ts';
import { UsageError } from '../command-errors.ts';

export function agentNamed(name: string): string {
  if (AgentName.safeParse(name).success) return name;
  throw new UsageError(`${JSON.stringify(name)} is no name of an agent.`, '`cella agents list` shows those there are.');
}

/** Refused before the first prompt where it could only fail: there is no such agent, or it is not installed there. */
export async function agentAt(session: Pick<AgentApi, 'agents'>, name: string): Promise<string> {
  const wanted = agentNamed(name);
  const all = await session.agents();
  const found = all.find(({ agent }) => agent === wanted);
  if (!found) {
    const advice = `Use one of these: ${all.map(inWords).join(', ')}.`;
    throw new CellaError('AGENT_UNKNOWN', `There is no coding agent ${JSON.stringify(wanted)}.`, { advice });
  }
  if (found.ready) return wanted;
  throw new CellaError('AGENT_NOT_INSTALLED', `${found.title} is not installed where this session is.`, {
    advice: `Install it there: \`cella agents install ${wanted}\`.`,
  });
}

function inWords({ agent, ready, version }: CodingAgent): string {
  if (!ready) return `${agent} (not installed)`;
  return version === undefined ? agent : `${agent} (${version})`;
}
