/** A handler for each route, by its types. */

import { expect, it } from 'vitest';
import type { serverRoutes } from '../../protocol/api/server-routes.ts';
import type { Handlers } from './router.ts';

/** Compiled, and not run. */
function typed(all: Handlers<typeof serverRoutes>): void {
  const { getHealth, ...others } = all;
  // @ts-expect-error getHealth is missing
  const incomplete: Handlers<typeof serverRoutes> = others;
  // @ts-expect-error a status that is none
  const wrong: Handlers<typeof serverRoutes> = { ...others, getHealth: async () => ({ status: 'well' }) };
  const right: Handlers<typeof serverRoutes> = { ...others, getHealth };
  void [incomplete, wrong, right];
}

it('is checked at compile time', () => expect(typed).toBeTypeOf('function'));
