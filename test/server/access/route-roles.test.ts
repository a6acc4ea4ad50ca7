/** Routes × roles: no route of the document lets in anybody whom it does not say, nor keeps out whom it does. */

import { expect, it } from 'vitest';
import { tryRoutesByRole } from './route-roles.ts';

it('every route responds to no user, viewers, members with each share, agents and expired tokens as documented', async () => {
  const { calls, wrong } = await tryRoutesByRole();
  expect(wrong).toEqual([]);
  expect(calls).toBeGreaterThan(600);
});
