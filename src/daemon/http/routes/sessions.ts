/** Sessions: make, list, look at, change, delete and fork them. */

import type { z } from 'zod';
import { CellaError } from '../../../protocol/errors.ts';
import * as wire from '../../../protocol/http/session-routes.ts';
import type { SessionInfo } from '../../../protocol/http/sessions.ts';
import { requireScope, rightOf } from '../../access/rights.ts';
import { checkPrivileges } from '../privileges.ts';
import type { Service } from '../service.ts';
import { belonging, resolveShares } from '../shares.ts';

export function addSessionRoutes(service: Service): void {
  const { routes, host, access, membersMay } = service;

  routes.add(wire.CreateSession, async ({ body, principal, about, context }) => {
    requireScope(principal, 'manage');
    checkPrivileges(principal, body, membersMay);
    const shares = await resolveShares(body.shares, access.users);
    const { session, created } = await host.create(principal.userId, { ...body, ...(shares ? { shares } : {}) });
    about({ session: session.id });
    return created ? session : context.json(session, 200);
  });

  routes.add(wire.ListSessions, async ({ query, principal }) => {
    requireScope(principal, 'view');
    return await list(service, query, (info) => {
      const { ownerId, shares } = belonging(info);
      return rightOf(principal, ownerId, shares) !== undefined;
    });
  });

  routes.session(wire.GetSession, async ({ info }) => info);

  routes.session(wire.UpdateSession, async ({ info, body, principal }) => {
    const shares = await resolveShares(body.shares, access.users);
    return await host.update(info.id, { ...body, ...(shares ? { shares } : {}) }, { by: principal.userId });
  });

  routes.session(wire.DeleteSession, async ({ info }) => {
    await host.delete(info.id);
    return undefined;
  });

  routes.session(wire.ForkSession, async ({ info, body, principal, about }) => {
    requireScope(principal, 'manage');
    const forked = await host.fork(info.id, principal.userId, body);
    about({ target: forked.id });
    return forked;
  });
}

type Query = z.output<typeof wire.ListQuery>;

/** Pages of those that may be seen: what is left out of a page of the store is made up for by the next. */
async function list({ host, access }: Service, query: Query, mayBeSeen: (info: SessionInfo) => boolean) {
  const { agentKey, state, limit } = query;
  const owner = query.owner === undefined ? undefined : ((await access.users.find(query.owner))?.id ?? query.owner);
  const labels = labelsOf(query.label);
  const wanted = {
    ...(agentKey === undefined ? {} : { agentKey }),
    ...(owner === undefined ? {} : { owner }),
    ...(state === undefined ? {} : { state }),
    ...(labels === undefined ? {} : { labels }),
  };
  const sessions: SessionInfo[] = [];
  let { cursor } = query;
  for (;;) {
    const left = limit - sessions.length;
    const page = await host.list({ ...wanted, limit: left, ...(cursor === undefined ? {} : { cursor }) });
    sessions.push(...page.sessions.filter(mayBeSeen));
    cursor = page.next;
    if (cursor === undefined) return { sessions };
    if (sessions.length >= limit) return { sessions, next: cursor };
  }
}

function labelsOf(given: string | string[] | undefined): Record<string, string> | undefined {
  if (given === undefined) return undefined;
  return Object.fromEntries(
    [given].flat().map((label) => {
      const [name = '', ...value] = label.split('=');
      if (value.length === 0) throw new CellaError('INVALID_REQUEST', 'label: must be written as name=value.');
      return [name, value.join('=')];
    }),
  );
}
