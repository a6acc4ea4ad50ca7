/** The server itself: whether it lives and is ready, its numbers, and its document. */

import * as serverRoutes from '../../../protocol/api/server-routes.ts';
import { stopping } from '../../stopping.ts';
import { docsPage } from '../docs-page.ts';
import { documentOf, type OpenApiDocument } from '../document.ts';
import { HOME_PAGE } from '../home-page.ts';
import { pageHeaders as headers } from '../page.ts';
import type { Service } from '../service.ts';

/** To be added last: the document tells of every route that was added before. */
export function addSystemRoutes({ routes, host, metrics, stopping: ending, version, probe }: Service): void {
  routes.open(serverRoutes.Home, async () => new Response(HOME_PAGE, { headers }));
  routes.open(serverRoutes.Health, async () => ({ status: 'ok' as const }));

  routes.add(serverRoutes.Ready, async () => {
    if (ending.aborted) throw stopping();
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
    made ??= documentOf(routes.endpoints, version);
    return made;
  };
  routes.add(serverRoutes.OpenApi, async () => Response.json(document()));
  routes.add(serverRoutes.Docs, async () => new Response(docsPage(document()), { headers }));
}
