/** The Hono app: middleware for every request and response, and all handlers. */

import { randomUUID } from 'node:crypto';
import { isIP } from 'node:net';
import { Hono } from 'hono';
import type { Logger } from 'pino';
import { routes } from '../../protocol/api/routes.ts';
import { CellaError } from '../../protocol/errors.ts';
import { FORWARD_HEADER, type ForwardSigner } from '../cluster/forward-signer.ts';
import type { ServerMetrics } from '../metrics.ts';
import { isLoopback, serverNames } from '../startup-checks.ts';
import { errorResponse, toCellaError } from './error-response.ts';
import {
  auditHandlers,
  credentialHandlers,
  loginHandlers,
  tokenHandlers,
  userHandlers,
} from './handlers/access-handlers.ts';
import { agentHandlers, permissionHandlers, profileHandlers } from './handlers/agent-handlers.ts';
import { eventHandlers } from './handlers/event-handlers.ts';
import { executionHandlers, mcpHandlers, terminalHandlers } from './handlers/execution-handlers.ts';
import { fileHandlers } from './handlers/file-handlers.ts';
import { namespaceHandlers, toolCallHandlers } from './handlers/namespace-handlers.ts';
import { serverHandlers } from './handlers/server-handlers.ts';
import { kernelCheckpointHandlers, sessionHandlers, stateHandlers } from './handlers/session-handlers.ts';
import { errorPage, wantsPage } from './pages.ts';
import type { RequestAudit } from './request-audit.ts';
import { Router } from './router.ts';
import {
  clientAddress,
  isTls,
  pathOf,
  type RequestBindings,
  type RequestContext,
  type RequestEnv,
  type ServerContext,
} from './server-context.ts';

/** Answers a request. */
export type Fetch = (request: Request, bindings: RequestBindings) => Response | Promise<Response>;

export function buildApp(context: ServerContext): Fetch {
  const { access, sessions, log, metrics, config, peers, forwarder, draining, closing } = context;
  const { limits, requestAudit, unread } = context;
  const app = makeApp({
    hosts: { loopback: isLoopback(config.host), names: serverNames(config) },
    log,
    metrics,
    requestAudit,
    forwardSigner: peers?.forwardSigner,
  });
  closing.addEventListener('abort', () => forwarder?.[Symbol.dispose]());
  const router = new Router(app, {
    access,
    requestAudit,
    sessions,
    unread,
    bodyLimitBytes: limits.bodyBytes,
    draining: () => draining.aborted,
    forwarder,
  });
  router.register(routes, {
    ...sessionHandlers(context),
    ...stateHandlers(context),
    ...kernelCheckpointHandlers(context),
    ...executionHandlers(context),
    ...eventHandlers(context),
    ...terminalHandlers(context),
    ...mcpHandlers(context, (c) => router.reserveBytes(c)),
    ...agentHandlers(context),
    ...profileHandlers(context),
    ...permissionHandlers(context),
    ...namespaceHandlers(context),
    ...toolCallHandlers(context),
    ...fileHandlers(context),
    ...loginHandlers(context),
    ...userHandlers(context),
    ...tokenHandlers(context),
    ...auditHandlers(context),
    ...credentialHandlers(context),
    ...serverHandlers(context),
  });
  return (request, bindings) => app.fetch(request, bindings);
}

interface AppOptions {
  readonly hosts: HostHeaderRules;
  readonly log: Logger;
  readonly metrics: ServerMetrics;
  /** Records requests that are refused before routing. */
  readonly requestAudit: Pick<RequestAudit, 'refused'>;
  /** Recognizes requests that another server forwarded. */
  readonly forwardSigner?: ForwardSigner | undefined;
}

export function makeApp({ hosts, log, metrics, requestAudit, forwardSigner }: AppOptions): Hono<RequestEnv> {
  const app = new Hono<RequestEnv>();
  app.use(async (c, next) => {
    const began = performance.now();
    const requestId = requestIdOf(c.req.header('x-request-id'));
    c.set('requestId', requestId);
    c.set('log', log.child({ requestId }));
    await next();
    // A response to HEAD has no body. Cancel it, so that its source does not wait for a reader.
    if (c.req.method === 'HEAD') await c.res.body?.cancel();
    c.res.headers.set('x-request-id', requestId);
    addSecurityHeaders(c.res.headers, { tls: isTls(c.env) });
    const ms = performance.now() - began;
    // Log after the response, so that no client waits for it.
    setImmediate(() => logRequest(c, log, metrics, ms));
  });
  app.use(async (c, next) => {
    const { method } = c.req;
    const [authorization, cookie] = [c.req.header('authorization'), c.req.header('cookie')];
    const mark = c.req.header(FORWARD_HEADER);
    if (mark !== undefined)
      c.set('forwardMark', forwardSigner?.read({ method, path: pathOf(c), authorization, cookie }, mark));
    await next();
  });
  app.use(async (c, next) => {
    const problem = c.env.listener === 'local' ? undefined : checkHostAndOrigin(c, hosts);
    if (problem !== undefined) {
      requestAudit.refused(c, 'origin', { code: problem.code, detail: problem.message });
      throw problem;
    }
    await next();
  });
  app.notFound((c) =>
    errorAnswer(
      c,
      new CellaError('NOT_FOUND', `There is no ${c.req.method} ${c.req.path.slice(0, 200)}.`, {
        advice: '/docs and /openapi.json list every route.',
      }),
    ),
  );
  app.onError((error, c) => {
    const failure = toCellaError(error, c.get('requestId'));
    if (failure.code === 'INTERNAL') c.get('log').error({ err: error }, 'unexpected');
    return errorAnswer(c, failure);
  });
  return app;
}

function errorAnswer(c: RequestContext, error: CellaError): Response {
  return errorResponse(error, wantsPage(c) ? errorPage(error, c) : undefined);
}

function checkHostAndOrigin(c: RequestContext, hosts: HostHeaderRules): CellaError | undefined {
  const host = c.req.header('host');
  const name = hostProblem(host, hosts);
  if (name !== undefined) {
    const advice = 'Use its address, or allow the name: `cella serve --allow-host NAME`.';
    return new CellaError('FORBIDDEN', name, { advice });
  }
  // The server that forwarded the request has checked its Origin.
  const page = c.get('forwardMark') ? undefined : originProblem(c.req.header('origin'), host);
  const advice = 'Use a page of the server itself, or a program, which sends no Origin.';
  return page === undefined ? undefined : new CellaError('FORBIDDEN', page, { advice });
}

/** Clients may set the request id, so that the logs of both sides can be matched. */
function requestIdOf(given: string | undefined): string {
  return given !== undefined && /^[\w.-]{1,64}$/.test(given) ? given : randomUUID();
}

/** Logs the path without the query, which may contain a login code. */
function logRequest(c: RequestContext, log: Logger, metrics: ServerMetrics, ms: number): void {
  const { status } = c.res;
  const route = c.get('route') ?? 'none';
  metrics.request(c.req.method, route, status, ms);
  const user = c.get('principal')?.userName;
  const line = {
    requestId: c.get('requestId'),
    method: c.req.method,
    path: c.req.path,
    status,
    ms: Math.round(ms * 10) / 10,
    from: clientAddress(c),
    user,
  };
  if (route === '/health') log.debug(line, 'request');
  else log.info(line, 'request');
}

interface HostHeaderRules {
  /** Whether only programs of this machine can reach the server. */
  readonly loopback: boolean;
  /** Further host names of the server: behind a proxy, or in DNS. */
  readonly names: readonly string[];
}

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

/** What is wrong with the Host header. Rejects unknown names, which protects against DNS rebinding. */
export function hostProblem(host: string | undefined, { loopback, names }: HostHeaderRules): string | undefined {
  const name = nameOf(host);
  if (name === undefined) return 'The Host header is missing or invalid.';
  if (LOOPBACK.has(name) || names.includes(name)) return undefined;
  // DNS rebinding works only with names, not with addresses.
  if (!loopback && isIP(name.replace(/^\[|\]$/g, '')) !== 0) return undefined;
  return `This server does not accept the host name ${JSON.stringify(name.slice(0, 100))}.`;
}

/** What is wrong with the Origin header: only the server's own pages may send requests. Programs send no Origin. */
export function originProblem(origin: string | undefined, host: string | undefined): string | undefined {
  if (origin === undefined) return undefined;
  const from = URL.parse(origin);
  const isPage = from !== null && (from.protocol === 'http:' || from.protocol === 'https:');
  // Behind a TLS proxy the schemes differ, but the host does not.
  if (isPage && host !== undefined && from.host === URL.parse(`${from.protocol}//${host}`)?.host) return undefined;
  return 'The request comes from a page of another site.';
}

function nameOf(host: string | undefined): string | undefined {
  if (host === undefined || !/^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?$/.test(host)) return undefined;
  return host.replace(/:\d+$/, '').toLowerCase();
}

/** For all other responses. The server's own pages set a policy that allows their styles and scripts. */
const NO_CONTENT_POLICY = "default-src 'none'; frame-ancestors 'none'";

const always: Readonly<Record<string, string>> = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
};

export function addSecurityHeaders(headers: Headers, { tls }: { readonly tls: boolean }): void {
  for (const [name, value] of Object.entries(always)) if (!headers.has(name)) headers.set(name, value);
  if (!headers.has('content-security-policy')) headers.set('content-security-policy', NO_CONTENT_POLICY);
  if (!headers.has('cache-control')) headers.set('cache-control', 'no-store');
  if (tls) headers.set('strict-transport-security', 'max-age=31536000');
}
