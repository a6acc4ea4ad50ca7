/** Routes × roles: no route of the document lets in anybody whom it does not say, nor keeps out whom it does. */

import { expect, it } from 'vitest';
import { TestServer } from '../../support/servers/server.ts';
import { tryRoutesByRole } from './route-roles.ts';

it('every route gives nobody, viewers, members with each share, agents and expired tokens what the document says', async () => {
  const server = await TestServer.start();
  const { calls, wrong } = await tryRoutesByRole(server.url, server.token);
  expect(wrong).toEqual([]);
  expect(calls).toBeGreaterThan(600);
});
