/** The profiles that a user has set up for agents. */

import * as agentRoutes from '../../../protocol/api/agent-routes.ts';
import { requireScope } from '../../access/authorization.ts';
import type { Service } from '../service.ts';

export function addProfileRoutes({ routes, profiles }: Service): void {
  routes.add(agentRoutes.ListProfiles, async ({ principal }) => {
    requireScope(principal, 'view');
    return { profiles: await profiles.list(principal.userId) };
  });

  routes.add(agentRoutes.GetProfile, async ({ principal, params: { name } }) => {
    requireScope(principal, 'view');
    return await profiles.get(principal.userId, name);
  });

  routes.add(agentRoutes.PutProfile, async ({ principal, params: { name }, body, about }) => {
    requireScope(principal, 'manage');
    about({ target: name });
    return await profiles.put(principal.userId, name, body);
  });

  routes.add(agentRoutes.DeleteProfile, async ({ principal, params: { name }, about }) => {
    requireScope(principal, 'manage');
    about({ target: name });
    await profiles.delete(principal.userId, name);
    return undefined;
  });
}
