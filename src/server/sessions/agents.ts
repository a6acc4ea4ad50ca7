/** The agents of one user: what storage knows of them, and what their open sessions know better. */

import type { AgentInfo } from '../../session/api.ts';
import { listAgents } from '../../session/kernel-list.ts';
import type { HostedSession } from './hosted-session.ts';
import { agentKeyIn } from './ids.ts';
import type { HostShare } from './share.ts';

export async function agentsOf(
  { storage, dataDir }: HostShare,
  ownerId: string,
  open: readonly HostedSession[],
): Promise<AgentInfo[]> {
  const mine = (key: string) => agentKeyIn(ownerId, key) !== undefined;
  const stored = await listAgents({ dataDir, storage, which: mine });
  const agents = new Map(stored.map((agent) => [agent.agentKey, agent]));
  for (const hosted of open) {
    if (hosted.definition.ownerId !== ownerId) continue;
    const now = await hosted.agent();
    // What nobody has used is not there yet.
    if (!now || (now.executions === 0 && !agents.has(now.key))) continue;
    const { key, state, executions } = now;
    const known = agents.get(key) ?? { agentKey: key, idleMs: 0 };
    agents.set(key, { ...withoutProcess(known, state), state, executions });
  }
  return [...agents.values()].map(({ agentKey, workspaceOf, ...facts }) => ({
    agentKey: agentKeyIn(ownerId, agentKey) ?? agentKey,
    ...facts,
    ...(workspaceOf === undefined ? {} : { workspaceOf: agentKeyIn(ownerId, workspaceOf) ?? workspaceOf }),
  }));
}

type Known = Omit<AgentInfo, 'state' | 'executions'>;

/** A kernel that sleeps has none. */
function withoutProcess({ pid, memoryBytes, ...known }: Known, state: AgentInfo['state']): Known {
  if (state === 'hibernated') return known;
  return { ...known, ...(pid === undefined ? {} : { pid }), ...(memoryBytes === undefined ? {} : { memoryBytes }) };
}
