/** Puts the app together: all routes, with what they work on. */

import { SessionForwarder } from '../cluster/session-forwarder.ts';
import { isLoopback } from '../exposure.ts';
import { makeApp } from './app.ts';
import { AuditTrail } from './audit-trail.ts';
import { Followers } from './followers.ts';
import type { makeServer } from './listener.ts';
import { HttpMetrics } from './metrics.ts';
import { defaultLimits, type HttpOptions } from './options.ts';
import { Routes } from './router.ts';
import { addAccessRoutes } from './routes/access.ts';
import { addAgentRoutes } from './routes/agents.ts';
import { addCredentialRoutes } from './routes/credentials.ts';
import { addEventRoutes } from './routes/events.ts';
import { addExecutionRoutes } from './routes/execution.ts';
import { addFileRoutes } from './routes/files.ts';
import { addMcpRoutes } from './routes/mcp.ts';
import { addNamespaceRoutes } from './routes/namespaces.ts';
import { addPermissionRoutes } from './routes/permissions.ts';
import { addProfileRoutes } from './routes/profiles.ts';
import { addServerRoutes } from './routes/server.ts';
import { addSessionRoutes } from './routes/sessions.ts';
import { addStateRoutes } from './routes/state.ts';
import { addSystemRoutes } from './routes/system.ts';
import { addTerminalRoutes } from './routes/terminal.ts';
import type { Service } from './service.ts';

type Fetch = Parameters<typeof makeServer>[0]['fetch'];

/** `stopping`: no new work; `ending`: every connection goes. */
export function assemble(
  options: HttpOptions,
  { stopping, ending }: { readonly stopping: AbortSignal; readonly ending: AbortSignal },
): Fetch {
  const { access, models, host, room, log, version, address, names = [], membersMay = [] } = options;
  const { bodyBytes, patienceMs, heartbeatMs, bufferBytes } = { ...defaultLimits, ...options.limits };
  const metrics = new HttpMetrics(host, options.agentNumbers, access.audit);
  const trail = new AuditTrail(access.audit);
  const { peers } = options;
  const app = makeApp({
    hosts: { loopback: isLoopback(address), names },
    log,
    metrics,
    trail,
    hops: peers?.forwardSigner,
  });
  const { adminTokenPath } = access;
  const sockets = { patienceMs, bufferBytes, ending };
  const forwarder = peers && new SessionForwarder({ peers, host, adminTokenPath, sockets });
  ending.addEventListener('abort', () => forwarder?.[Symbol.dispose]());
  const routes = new Routes(app, {
    access,
    trail,
    host,
    bodyLimitBytes: bodyBytes,
    stopping: () => stopping.aborted,
    forwarder,
  });
  const streams = { patienceMs, heartbeatMs, bufferBytes };
  const service: Service = {
    routes,
    access,
    models,
    host,
    forwarder,
    metrics,
    followers: new Followers((kind) => metrics.client(kind)),
    kernels: options.kernels,
    profiles: options.profiles,
    codingAgents: options.codingAgents,
    room,
    streams,
    membersMay,
    version,
    probe: options.probe,
    stopping,
    ending,
  };
  addSessionRoutes(service);
  addExecutionRoutes(service);
  addEventRoutes(service);
  addPermissionRoutes(service);
  addStateRoutes(service);
  addFileRoutes(service);
  addTerminalRoutes(service);
  addNamespaceRoutes(service);
  if (options.endpoints) addMcpRoutes(service, options.endpoints);
  addAgentRoutes(service);
  addProfileRoutes(service);
  addAccessRoutes(service);
  addCredentialRoutes(service);
  addServerRoutes(service, options.life);
  addSystemRoutes(service);
  return (request, bindings) => app.fetch(request, bindings);
}
