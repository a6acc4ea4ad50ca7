/** Sessions as MCP servers, for whoever may use them. */

import * as mcpRoutes from '../../../protocol/api/execution-routes.ts';
import { lightRequest } from '../body.ts';
import { cut, type ExchangeContext } from '../exchange.ts';
import type { McpEndpoints } from '../mcp-endpoints.ts';
import type { SessionCall } from '../router.ts';
import type { Service } from '../service.ts';
import { SSE } from '../streams.ts';
import { whileAllowed } from '../while-allowed.ts';

/** What the transport of MCP takes. */
const MOST_MESSAGE_BYTES = 4 * 1024 * 1024;

export function addMcpRoutes(service: Service, endpoints: McpEndpoints): void {
  const { routes, ending, followers, streams } = service;
  ending.addEventListener('abort', () => endpoints.close());

  const light = async (context: ExchangeContext) => {
    using hold = routes.room(context);
    return await lightRequest(context.req.raw, MOST_MESSAGE_BYTES, hold);
  };

  const answer = async (call: SessionCall<unknown, unknown, unknown>): Promise<Response> => {
    const { info, context, principal, recheck } = call;
    followers.check(principal);
    const log = context.get('log');
    const endpoint = await endpoints.of(info, (line) => log.warn({ line }, 'mcp'));
    const response = await endpoint.fetch(await light(context));
    const { body, headers } = response;
    if (!body || !headers.get('content-type')?.startsWith(SSE)) return new Response(body, response);
    const onEnd = followers.enter(principal, 'sse');
    return new Response(whileAllowed(body, { ...streams, recheck, onEnd, cut: () => cut(context.env) }), response);
  };
  routes.session(mcpRoutes.PostMcp, answer);
  routes.session(mcpRoutes.GetMcp, answer);
  routes.session(mcpRoutes.DeleteMcp, answer);
}
