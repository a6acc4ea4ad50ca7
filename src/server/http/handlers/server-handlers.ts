/** Handlers for the server itself: status, shutdown, health, metrics, and its API document. */

import { memoize } from '../../../lib/single-flight.ts';
import { routes } from '../../../protocol/api/routes.ts';
import type { serverRoutes } from '../../../protocol/api/server-routes.ts';
import { CellaError } from '../../../protocol/errors.ts';
import { drainingError } from '../../server-control.ts';
import { errorBody } from '../error-response.ts';
import { openApiDocument } from '../openapi.ts';
import { docsPage, HOME_PAGE, pageHeaders as headers } from '../pages.ts';
import type { Handlers } from '../router.ts';
import type { ServerContext } from '../server-context.ts';

export function serverHandlers(service: ServerContext): Handlers<typeof serverRoutes> {
  const { sessions, metrics, draining, version, probe, control, config, storage } = service;
  const document = memoize(async () => openApiDocument(routes, version));
  const openApi = memoize(async () => JSON.stringify(await document()));
  const docs = memoize(async () => docsPage(await document()));

  return {
    getServer: async () => {
      const { dataDir, graceMs, maxKernels } = config;
      const { pool, running, queued } = await sessions.metrics();
      const { live, spare, hibernated } = pool;
      return {
        version,
        pid: process.pid,
        startedAt: control.startedAt,
        url: control.url,
        dataDir,
        storage: storage.toBootstrapConfig().type,
        graceMs,
        draining: draining.aborted,
        sessions: await sessions.count(),
        kernels: { live, spare, hibernated, most: maxKernels },
        executions: { running, queued },
      };
    },

    stopServer: async ({ body: { pid, graceMs }, auditTarget }) => {
      auditTarget({ target: `process ${pid}` });
      const own = process.pid;
      if (pid !== own) throw new CellaError('INVALID_REQUEST', `This server is process ${own}, not ${pid}.`);
      control.request(graceMs ?? config.graceMs);
    },

    getServerEnd: async () => {
      const failed = await control.saved;
      return failed ? { failure: errorBody(failed).error } : {};
    },

    showHome: async () => new Response(HOME_PAGE, { headers }),

    getHealth: async () => ({ status: 'ok' as const }),

    getReady: async () => {
      if (draining.aborted) throw drainingError();
      // Checks that the storage can read and write.
      await sessions.list({ limit: 1 });
      await probe.check();
      return { status: 'ready' as const };
    },

    readMetrics: async () => {
      const text = await metrics.text();
      return new Response(text, { headers: { 'content-type': metrics.contentType } });
    },

    readOpenApi: async () => new Response(await openApi(), { headers: { 'content-type': 'application/json' } }),

    showDocs: async () => new Response(await docs(), { headers }),
  };
}
