/** Every session as an MCP server: made when a client first asks for it, and kept while clients use it. */

import * as wire from '../../../protocol/http/mcp-routes.ts';
import type { SessionInfo } from '../../../protocol/http/sessions.ts';
import type { SessionApi } from '../../../session/api.ts';
import { admitExecution } from '../admit-execution.ts';
import { awake } from '../awake.ts';
import { cut } from '../exchange.ts';
import type { SessionCall } from '../router.ts';
import type { Service } from '../service.ts';
import { SSE } from '../streams.ts';
import { whileAllowed } from '../while-allowed.ts';

export interface McpEndpoint {
  fetch(request: Request): Promise<Response>;
  close(): Promise<void>;
}

/** MCP is no part of the daemon: whoever puts both together gives it this. */
export type MakeMcp = (session: {
  readonly agentKey: string;
  readonly api: () => Promise<SessionApi>;
  /** As `api`, for whoever is about to run code: it counts. */
  readonly toRun: () => Promise<SessionApi>;
  readonly open: boolean;
  readonly inProcess: boolean;
  readonly log: (line: string) => void;
}) => Promise<McpEndpoint>;

/** The one that was not used for the longest time goes first. */
const MOST_ENDPOINTS = 256;

export function addMcpRoutes(service: Service, make: MakeMcp): void {
  const { routes, host, ending, followers, streams } = service;
  const endpoints = new Map<string, Promise<McpEndpoint>>();
  const drop = (key: string) => {
    const endpoint = endpoints.get(key);
    endpoints.delete(key);
    void endpoint?.then((made) => made.close()).catch(() => {}); // nobody waits for its end
  };
  ending.addEventListener('abort', () => [...endpoints.keys()].forEach(drop));

  const endpointOf = (info: SessionInfo, log: (line: string) => void): Promise<McpEndpoint> => {
    const { id, agentKey, settings } = info;
    const open = settings.allowRuntimeDeps !== false;
    // What a server offers depends on whether packages can be changed.
    const key = `${id} ${open}`;
    const api = async () => awake(service, await host.get(id));
    const toRun = async () => {
      await admitExecution(service, await host.get(id));
      return await (await host.open(id)).api();
    };
    const inProcess = settings.executor === 'in-process';
    const endpoint = endpoints.get(key) ?? make({ agentKey, api, toRun, open, inProcess, log });
    endpoints.delete(key);
    endpoints.set(key, endpoint);
    // What could not be made is tried again for the next who asks.
    endpoint.catch(() => endpoints.get(key) === endpoint && endpoints.delete(key));
    const [oldest] = endpoints.keys();
    if (endpoints.size > MOST_ENDPOINTS && oldest !== undefined) drop(oldest);
    return endpoint;
  };

  const answer = async (call: SessionCall<unknown, unknown, unknown>): Promise<Response> => {
    const { info, context, principal, recheck } = call;
    followers.check(principal);
    const log = context.get('log');
    const endpoint = await endpointOf(info, (line) => log.warn({ line }, 'mcp'));
    const response = await endpoint.fetch(context.req.raw);
    const { body, headers } = response;
    if (!body || !headers.get('content-type')?.startsWith(SSE)) return new Response(body, response);
    const onEnd = followers.enter(principal, 'sse');
    return new Response(whileAllowed(body, { ...streams, recheck, onEnd, cut: () => cut(context.env) }), response);
  };
  routes.session(wire.PostMcp, answer);
  routes.session(wire.GetMcp, answer);
  routes.session(wire.DeleteMcp, answer);
}
