/** Sessions: make, list, look at, change, delete and fork them. */

import * as sessionRoutes from '../../../protocol/api/session-routes.ts';
import { CellaError } from '../../../protocol/errors.ts';
import { SessionSettings } from '../../../protocol/session-info.ts';
import { requireScope, rightOf } from '../../access/authorization.ts';
import { checkPrivileges } from '../privileges.ts';
import type { Service } from '../service.ts';
import { resolveShares } from '../shares.ts';

export function addSessionRoutes(service: Service): void {
  const { routes, host, access, kernels, membersMay } = service;

  routes.add(sessionRoutes.CreateSession, async ({ body = {}, principal, about, context }) => {
    requireScope(principal, 'manage');
    checkPrivileges(principal, body, membersMay);
    const { shares, ...wanted } = body;
    const given = { ...wanted, ...(await resolveShares(shares, access.users)) };
    const { session, created } = await host.create(principal.userId, given);
    about({ session: session.id });
    return created ? session : context.json(session, 200);
  });

  routes.add(sessionRoutes.ListSessions, async ({ query, principal }) => {
    requireScope(principal, 'view');
    const { label, owner, ...wanted } = query;
    const labels = label === undefined ? {} : { labels: labelsOf(label) };
    const ownerId = owner === undefined ? undefined : ((await access.users.find(owner))?.id ?? owner);
    return await host.list(
      { ...wanted, ...labels, ...(ownerId === undefined ? {} : { ownerId }) },
      (session) => rightOf(principal, session.ownerId, session.shares) !== undefined,
      principal.scopes.includes('admin') ? undefined : principal,
    );
  });

  routes.add(sessionRoutes.ListAgents, async ({ principal }) => {
    requireScope(principal, 'view');
    return { agents: await host.agents(principal.userId) };
  });

  routes.session(sessionRoutes.GetSession, async ({ info }) => info);

  routes.session(sessionRoutes.UpdateSession, async ({ info, body, principal }) => {
    const { shares, ...wanted } = body;
    if (wanted.limits) await kernels.admitChange(info, SessionSettings.shape.limits.parse(wanted.limits));
    const change = { ...wanted, ...(await resolveShares(shares, access.users)) };
    return await host.update(info.id, change, { by: principal.userId });
  });

  routes.session(sessionRoutes.DeleteSession, async ({ info }) => {
    await host.delete(info.id);
    return undefined;
  });

  routes.session(sessionRoutes.ConfirmFork, async ({ info, principal }) => {
    // What it lets the code use is the owner's, and nobody else's to give.
    if (principal.userId !== info.ownerId) {
      throw new CellaError('FORBIDDEN', `Only its owner confirms session ${info.id}.`, {
        advice: `Ask its owner, ${info.ownerId.split('~', 1)[0]}, to confirm it.`,
        details: { session: info.id },
      });
    }
    return await host.confirm(info.id, { by: principal.userId });
  });

  routes.session(sessionRoutes.ForkSession, async ({ info, body, principal, about }) => {
    requireScope(principal, 'manage');
    // It is the forker's own from here on, with all that its parent was allowed.
    checkPrivileges(principal, info.settings, membersMay);
    await kernels.admit(info);
    await kernels.admitFork(info, principal.userId);
    const forked = await host.fork(info.id, principal.userId, body);
    about({ target: forked.id });
    return forked;
  });
}

function labelsOf(given: string | string[]): Record<string, string> {
  return Object.fromEntries(
    [given].flat().map((label) => {
      const [name = '', ...value] = label.split('=');
      if (value.length === 0) throw new CellaError('INVALID_REQUEST', 'label: must be written as name=value.');
      return [name, value.join('=')];
    }),
  );
}
