/** The server itself: whether it lives and is ready, its numbers, and its document. */

import * as wire from '../../../protocol/api/server-routes.ts';
import { stopping } from '../../stopping.ts';
import { docsPage } from '../docs-page.ts';
import { documentOf, type OpenApiDocument } from '../document.ts';
import { HOME_PAGE } from '../home-page.ts';
import { pageHeaders as headers } from '../page.ts';
import type { Service } from '../service.ts';

/** To be added last: the document tells of every route that was added before. */
export function addSystemRoutes({ routes, host, metrics, stopping: ending, version, probe }: Service): void {
  routes.open(wire.Home, async () => new Response(HOME_PAGE, { headers }));
  routes.open(wire.Health, async () => ({ status: 'ok' as const }));

  routes.add(wire.Ready, async () => {
    if (ending.aborted) throw stopping();
    // Asks the storage something, and has it keep something.
    await host.list({ limit: 1 });
    await probe.check();
    return { status: 'ready' as const };
  });

  routes.add(wire.Metrics, async () => {
    const text = await metrics.text();
    return new Response(text, { headers: { 'content-type': metrics.contentType } });
  });

  let made: OpenApiDocument | undefined;
  const document = () => {
    made ??= documentOf(routes.endpoints, version);
    return made;
  };
  routes.add(wire.OpenApi, async () => Response.json(document()));
  routes.add(wire.Docs, async () => new Response(docsPage(document()), { headers }));
}
