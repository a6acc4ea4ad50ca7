/** Permissions: what waits in a session, the decision, and the rules of a user and of a session. */

import * as permissionRoutes from '../../../protocol/api/agent-routes.ts';
import { requireScope } from '../../access/authorization.ts';
import type { Service } from '../service.ts';

export function addPermissionRoutes(service: Service): void {
  const { routes, host } = service;

  routes.session(permissionRoutes.ListPermissions, async ({ info, query }) => {
    const { permissions } = await host.open(info.id);
    return { permissions: await permissions.list(query.state) };
  });

  routes.session(permissionRoutes.GetPermission, async ({ info, params }) => {
    const { permissions } = await host.open(info.id);
    return await permissions.get(params.permission);
  });

  routes.session(
    permissionRoutes.DecidePermission,
    async ({ info, params: { permission }, body, principal, about }) => {
      about({ target: permission });
      const { permissions } = await host.open(info.id);
      if (body.decision !== 'abstain') return await permissions.decide(principal.userId, permission, body);
      const found = await permissions.get(permission);
      permissions.abstain(permission, body.attendant);
      return found;
    },
  );

  routes.session(permissionRoutes.ListSessionRules, async ({ info }) => {
    const { permissions } = await host.open(info.id);
    return { rules: await permissions.rules() };
  });

  routes.session(permissionRoutes.DeleteSessionRule, async ({ info, params, about }) => {
    about({ target: params.rule });
    const { permissions } = await host.open(info.id);
    await permissions.deleteRule(params.rule);
    return undefined;
  });

  routes.add(permissionRoutes.ListRules, async ({ principal }) => ({
    rules: await host.rulesOf(principal.userId).list(),
  }));

  routes.add(permissionRoutes.AddRule, async ({ principal, body, about }) => {
    requireScope(principal, 'use');
    const rule = await host.rulesOf(principal.userId).add(body, principal.userId);
    about({ target: rule.id });
    return rule;
  });

  routes.add(permissionRoutes.DeleteRule, async ({ principal, params, about }) => {
    requireScope(principal, 'use');
    about({ target: params.rule });
    await host.rulesOf(principal.userId).delete(params.rule);
    return undefined;
  });
}
