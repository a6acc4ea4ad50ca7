/** Handlers for the server itself: status, shutdown, health, metrics, and its API document. */

import * as serverRoutes from '../../../protocol/api/server-routes.ts';
import { CellaError } from '../../../protocol/errors.ts';
import { drainingError } from '../../request-errors.ts';
import { errorBody } from '../error-response.ts';
import { type OpenApiDocument, openApiDocument } from '../openapi.ts';
import { docsPage, HOME_PAGE, pageHeaders as headers } from '../pages.ts';
import type { ServerContext, ServerControl } from '../server-context.ts';

export function addServerRoutes({ routes, host, stopping, version }: ServerContext, life: ServerControl): void {
  routes.add(serverRoutes.GetServer, async () => {
    const { maxKernels, ...facts } = life.facts();
    const { pool, running, queued } = await host.metrics();
    const { live, spare, hibernated } = pool;
    return {
      ...facts,
      version,
      stopping: stopping.aborted,
      sessions: await host.count(),
      kernels: { live, spare, hibernated, most: maxKernels },
      executions: { running, queued },
    };
  });

  routes.add(serverRoutes.StopServerRoute, async ({ body: { pid, graceMs }, auditTarget }) => {
    auditTarget({ target: `process ${pid}` });
    const own = life.facts().pid;
    if (pid !== own) throw new CellaError('INVALID_REQUEST', `This server is process ${own}, and not ${pid}.`);
    life.stop(graceMs);
    return undefined;
  });

  routes.add(serverRoutes.GetServerEnd, async () => {
    const failed = await life.saved;
    return failed ? { failure: errorBody(failed).error } : {};
  });
}

/** To be added last: the document tells of every route that was added before. */
export function addSystemRoutes({ routes, host, metrics, stopping: ending, version, probe }: ServerContext): void {
  routes.open(serverRoutes.Home, async () => new Response(HOME_PAGE, { headers }));
  routes.open(serverRoutes.Health, async () => ({ status: 'ok' as const }));

  routes.add(serverRoutes.Ready, async () => {
    if (ending.aborted) throw drainingError();
    // Asks the storage something, and has it keep something.
    await host.list({ limit: 1 });
    await probe.check();
    return { status: 'ready' as const };
  });

  routes.add(serverRoutes.Metrics, async () => {
    const text = await metrics.text();
    return new Response(text, { headers: { 'content-type': metrics.contentType } });
  });

  let made: OpenApiDocument | undefined;
  const document = () => {
    made ??= openApiDocument(routes.endpoints, version);
    return made;
  };
  routes.add(serverRoutes.OpenApi, async () => Response.json(document()));
  routes.add(serverRoutes.Docs, async () => new Response(docsPage(document()), { headers }));
}
