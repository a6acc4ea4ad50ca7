/** Routes × roles: no route of the document lets in anybody whom it does not say, nor keeps out whom it does. */

import { expect, it } from 'vitest';
import { tryRoutesByRole } from './route-roles.ts';

it('every route gives nobody, viewers, members with each share, agents at work and expired tokens what the document says', async () => {
  const { calls, wrong } = await tryRoutesByRole();
  expect(wrong).toEqual([]);
  expect(calls).toBeGreaterThan(600);
});
