/** The app: what is done to every request and every answer, and then its route. */

import { randomUUID } from 'node:crypto';
import { Hono } from 'hono';
import { CellaError } from '../../protocol/errors.ts';
import { FORWARD_HEADER, type Hops } from '../cluster/forward-mark.ts';
import type { AuditTrail } from './audit-trail.ts';
import { type Exchange, type ExchangeContext, isTls, pathOf, remoteOf } from './exchange.ts';
import { failureResponse, toCellaError } from './failure.ts';
import { failurePage, wantsPage } from './failure-page.ts';
import { type HostRules, hostProblem, originProblem } from './hosts.ts';
import type { Logger } from './logs.ts';
import type { HttpMetrics } from './metrics.ts';
import { addSecurityHeaders } from './security-headers.ts';

export interface AppOptions {
  readonly hosts: HostRules;
  readonly log: Logger;
  readonly metrics: HttpMetrics;
  /** Told of what is refused before its route is looked for. */
  readonly trail: Pick<AuditTrail, 'refused'>;
  /** How a request is known that another server has passed on. */
  readonly hops?: Hops | undefined;
}

export function makeApp({ hosts, log, metrics, trail, hops }: AppOptions): Hono<Exchange> {
  const app = new Hono<Exchange>();
  app.use(async (c, next) => {
    const began = performance.now();
    const requestId = requestIdOf(c.req.header('x-request-id'));
    c.set('requestId', requestId);
    c.set('log', log.child({ requestId }));
    await next();
    // Nobody reads the body of an answer to HEAD; what would give it must not wait for that.
    if (c.req.method === 'HEAD') await c.res.body?.cancel();
    c.res.headers.set('x-request-id', requestId);
    addSecurityHeaders(c.res.headers, { tls: isTls(c.env) });
    const ms = performance.now() - began;
    // Nobody waits for what is written of a request.
    setImmediate(() => tell(c, log, metrics, ms));
  });
  app.use(async (c, next) => {
    const { method } = c.req;
    const [authorization, cookie] = [c.req.header('authorization'), c.req.header('cookie')];
    const mark = c.req.header(FORWARD_HEADER);
    if (mark !== undefined) c.set('hop', hops?.read({ method, path: pathOf(c), authorization, cookie }, mark));
    await next();
  });
  app.use(async (c, next) => {
    const problem = c.env.door === 'local' ? undefined : trickery(c, hosts);
    if (problem !== undefined) {
      trail.refused(c, 'origin', { code: problem.code, detail: problem.message });
      throw problem;
    }
    await next();
  });
  app.notFound((c) =>
    refusal(
      c,
      new CellaError('NOT_FOUND', `There is no ${c.req.method} ${c.req.path.slice(0, 200)}.`, {
        advice: '/docs tells every route, and so does /openapi.json.',
      }),
    ),
  );
  app.onError((error, c) => {
    const told = toCellaError(error, c.get('requestId'));
    if (told.code === 'INTERNAL') c.get('log').error({ err: error }, 'unexpected');
    return refusal(c, told);
  });
  return app;
}

function refusal(c: ExchangeContext, error: CellaError): Response {
  return failureResponse(error, wantsPage(c) ? failurePage(error, c) : undefined);
}

function trickery(c: ExchangeContext, hosts: HostRules): CellaError | undefined {
  const host = c.req.header('host');
  const name = hostProblem(host, hosts);
  if (name !== undefined) {
    const advice = 'Ask it by its address, or let it go by the name: `cella serve --allow-host NAME`.';
    return new CellaError('FORBIDDEN', name, { advice });
  }
  // Which page sent it was looked at where it came in.
  const page = c.get('hop') ? undefined : originProblem(c.req.header('origin'), host);
  const advice = 'Ask from a page of the server itself, or from a program: that sends no Origin.';
  return page === undefined ? undefined : new CellaError('FORBIDDEN', page, { advice });
}

/** A client may name its request, so that both logs can be laid side by side. */
function requestIdOf(given: string | undefined): string {
  return given !== undefined && /^[\w.-]{1,64}$/.test(given) ? given : randomUUID();
}

/** The path only: a query may hold a code. */
function tell(c: ExchangeContext, log: Logger, metrics: HttpMetrics, ms: number): void {
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
    from: remoteOf(c),
    ...(user === undefined ? {} : { user }),
  };
  if (route === '/health') log.debug(line, 'request');
  else log.info(line, 'request');
}
