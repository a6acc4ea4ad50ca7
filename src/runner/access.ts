/** How an agent reaches models and the session's own MCP server: by way of the gateway, with the token as its key. */

import type { AgentAdapter, ModelAccess } from '../agents/contract.ts';
import type { AgentProfile } from '../protocol/agent-profile.ts';

/** For work that calls no model: an address where nobody is, and no key of anybody. */
export const nowhere: ModelAccess = { baseUrl: 'http://127.0.0.1:9', key: 'no-model-is-called' };

export function throughGateway(gatewayUrl: string, { provider }: AgentAdapter, token: string): ModelAccess {
  return { baseUrl: `${gatewayUrl}/${provider}`, key: token };
}

/** The profile with the session's own server beside those that a person has named; that name is Cella's. */
export function withSessionServer(
  profile: AgentProfile,
  name: string,
  gatewayUrl: string,
  token: string,
): AgentProfile {
  const own = { type: 'http', url: `${gatewayUrl}/mcp`, headers: { Authorization: `Bearer ${token}` } } as const;
  return { ...profile, mcpServers: { ...profile.mcpServers, [name]: own } };
}
