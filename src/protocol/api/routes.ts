/** The one table of all routes. The OpenAPI document is made from it; handlers and client methods are checked against it by their types. */

import { auditRoutes, credentialRoutes, loginRoutes, tokenRoutes, userRoutes } from './access-routes.ts';
import { agentRoutes, permissionRoutes, profileRoutes } from './agent-routes.ts';
import { eventRoutes, executionRoutes, mcpRoutes, terminalRoutes } from './execution-routes.ts';
import { fileRoutes, sessionNamespaceRoutes, toolCallRoutes, userNamespaceRoutes } from './namespace-routes.ts';
import { serverRoutes } from './server-routes.ts';
import { kernelCheckpointRoutes, sessionRoutes, stateRoutes } from './session-routes.ts';
import type { ClientFrame } from './socket-frames.ts';

export const routes = {
  ...sessionRoutes,
  ...stateRoutes,
  ...kernelCheckpointRoutes,
  ...executionRoutes,
  ...eventRoutes,
  ...terminalRoutes,
  ...mcpRoutes,
  ...agentRoutes,
  ...profileRoutes,
  ...permissionRoutes,
  ...userNamespaceRoutes,
  ...sessionNamespaceRoutes,
  ...toolCallRoutes,
  ...fileRoutes,
  ...loginRoutes,
  ...userRoutes,
  ...tokenRoutes,
  ...auditRoutes,
  ...credentialRoutes,
  ...serverRoutes,
};

export type Routes = typeof routes;
export type RouteName = keyof Routes;

/** The route with the same effect as a frame of the session's WebSocket: same right, same name in the audit log. */
export const frameRoutes = {
  execute: routes.executeCode,
  interrupt: routes.interruptCode,
  input: routes.answerInput,
  cancel_input: routes.answerInput,
  permission: routes.decidePermission,
} satisfies Record<Exclude<ClientFrame['type'], 'ping'>, Routes[RouteName]>;
