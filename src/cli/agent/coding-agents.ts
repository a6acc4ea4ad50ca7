/** The coding agents that a command line can name, and the sessions that have one. */

import { CellaError } from '../../protocol/errors.ts';
import { AgentName, type CodingAgent, ToolNames } from '../../protocol/turn.ts';
import type { AgentApi } from '../../session/api.ts';
import { UsageError } from '../command-errors.ts';

export function requireAgentApi<S extends object>(session: S): S & AgentApi {
  if (hasAgentApi(session)) return session;
  throw new CellaError('CAPABILITY_MISSING', 'Coding agents work in sessions of a server, and this is none.', {
    advice: 'Start a server with `cella serve` first, or name one with --url or CELLA_URL.',
  });
}

function hasAgentApi<S extends object>(session: S): session is S & AgentApi {
  return 'prompt' in session && typeof session.prompt === 'function';
}

export function parseAgentName(name: string): string {
  if (AgentName.safeParse(name).success) return name;
  throw new UsageError(`${JSON.stringify(name)} is not the name of an agent.`, '`cella agents list` shows all agents.');
}

/** Throws before the first prompt if there is no such agent, or if it is not installed there. */
export async function findAgent(session: Pick<AgentApi, 'agents'>, name: string): Promise<string> {
  const wanted = parseAgentName(name);
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

export function parseToolNames(text: string): readonly string[] {
  const names = ToolNames.safeParse(text.split(',').map((name) => name.trim()));
  if (names.success) return names.data;
  const message = `${JSON.stringify(text)} is not a list of tools: at most 100 names, separated by commas.`;
  throw new UsageError(message, 'Name tools of the agent, such as --tools Read,Bash.');
}
