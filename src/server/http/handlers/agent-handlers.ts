/** Handlers for coding agents: prompts, turns, profiles, permissions. */

import * as agentRoutes from '../../../protocol/api/agent-routes.ts';
import { ReadConversation } from '../../../protocol/api/agent-routes.ts';
import { requireScope } from '../../access/authorization.ts';
import type { PromptRequest } from '../../turns/session-turns.ts';
import { readConversationState } from '../../turns/turn-records.ts';
import { negotiateFormat, streamEvents } from '../event-responses.ts';
import { abortConnection } from '../request-context.ts';
import { idempotencyKeyOf } from '../router.ts';
import type { ServerContext } from '../server-context.ts';

export function addAgentRoutes(service: ServerContext): void {
  const { routes, host, profiles, models, codingAgents, storageQuota } = service;

  routes.session(agentRoutes.PromptAgent, async ({ info, body, principal, context, reauthorize, auditTarget }) => {
    const { profile, wait = true, stopWhenGone = false, ...wanted } = body;
    // What it writes and says is kept, and how much that will be is known to nobody.
    await storageQuota.admit(info.ownerId);
    const content = profile === undefined ? undefined : await profiles.get(principal.userId, profile);
    const session = await host.open(info.id);
    // Whoever only wanted to start it may go.
    const gone = stopWhenGone ? new AbortController() : undefined;
    const wish: PromptRequest = {
      ...wanted,
      by: principal.userId,
      profile: content && { name: content.name, content: content.profile },
      idempotencyKey: idempotencyKeyOf(context),
      signal: gone?.signal,
    };
    if (gone) context.req.raw.signal.addEventListener('abort', () => gone.abort());
    const form = negotiateFormat(context.req.header('accept'));
    if (form !== 'json') service.followers.check(principal);
    const { turn, replayed, info: accepted, started, ended } = await session.turns.prompt(wish);
    if (form === 'json') return { ...(wait ? await ended : accepted), replayed };
    auditTarget({ target: turn }, ended);
    return streamEvents(service, session, {
      form,
      // Told at once that it was accepted, however long it waits.
      after: started.then((firstSeq) => firstSeq - 1),
      turn,
      principal,
      reauthorize,
      cut: () => abortConnection(context.env),
      onGone: () => gone?.abort(),
    });
  });

  routes.session(agentRoutes.StopAgent, async ({ info, body }) => {
    const session = await host.open(info.id);
    return { turns: [...(await session.turns.stop(body))] };
  });

  routes.session(agentRoutes.ListCodingAgents, async () => ({ agents: await codingAgents() }));

  routes.session(agentRoutes.WarmAgent, async ({ info, params, principal }) => {
    const session = await host.open(info.id);
    return { warm: await session.turns.prestart({ agent: params.agent, by: principal.userId }) };
  });

  routes.session(agentRoutes.ListTurns, async ({ info, query }) => {
    const session = await host.open(info.id);
    return await session.turns.list(query);
  });

  routes.session(agentRoutes.GetTurn, async ({ info, params }) => {
    const session = await host.open(info.id);
    return await session.turns.get(params.turn);
  });

  routes.session(agentRoutes.ReadTranscript, async ({ info, query }) => {
    const session = await host.open(info.id);
    return await session.turns.transcript(query.conversation);
  });

  routes.session(ReadConversation, async ({ info }) => await readConversationState(await host.open(info.id)));

  routes.session(agentRoutes.ReadUsage, async ({ info }) => await models.usage.session(info.id));

  routes.add(agentRoutes.ReadOwnUsage, async ({ principal, query }) => {
    requireScope(principal, 'view');
    return { days: await models.usage.user(principal.userId, query) };
  });
}

export function addProfileRoutes({ routes, profiles }: ServerContext): void {
  routes.add(agentRoutes.ListProfiles, async ({ principal }) => {
    requireScope(principal, 'view');
    return { profiles: await profiles.list(principal.userId) };
  });

  routes.add(agentRoutes.GetProfile, async ({ principal, params: { name } }) => {
    requireScope(principal, 'view');
    return await profiles.get(principal.userId, name);
  });

  routes.add(agentRoutes.PutProfile, async ({ principal, params: { name }, body, auditTarget }) => {
    requireScope(principal, 'manage');
    auditTarget({ target: name });
    return await profiles.put(principal.userId, name, body);
  });

  routes.add(agentRoutes.DeleteProfile, async ({ principal, params: { name }, auditTarget }) => {
    requireScope(principal, 'manage');
    auditTarget({ target: name });
    await profiles.delete(principal.userId, name);
    return undefined;
  });
}

export function addPermissionRoutes(service: ServerContext): void {
  const { routes, host } = service;

  routes.session(agentRoutes.ListPermissions, async ({ info, query }) => {
    const { permissions } = await host.open(info.id);
    return { permissions: await permissions.list(query.state) };
  });

  routes.session(agentRoutes.GetPermission, async ({ info, params }) => {
    const { permissions } = await host.open(info.id);
    return await permissions.get(params.permission);
  });

  routes.session(
    agentRoutes.DecidePermission,
    async ({ info, params: { permission }, body, principal, auditTarget }) => {
      auditTarget({ target: permission });
      const { permissions } = await host.open(info.id);
      if (body.decision !== 'abstain') return await permissions.decide(principal.userId, permission, body);
      const found = await permissions.get(permission);
      permissions.abstain(permission, body.attendant);
      return found;
    },
  );

  routes.session(agentRoutes.ListSessionRules, async ({ info }) => {
    const { permissions } = await host.open(info.id);
    return { rules: await permissions.rules() };
  });

  routes.session(agentRoutes.DeleteSessionRule, async ({ info, params, auditTarget }) => {
    auditTarget({ target: params.rule });
    const { permissions } = await host.open(info.id);
    await permissions.deleteRule(params.rule);
    return undefined;
  });

  routes.add(agentRoutes.ListRules, async ({ principal }) => ({
    rules: await host.rulesOf(principal.userId).list(),
  }));

  routes.add(agentRoutes.AddRule, async ({ principal, body, auditTarget }) => {
    requireScope(principal, 'use');
    const rule = await host.rulesOf(principal.userId).add(body, principal.userId);
    auditTarget({ target: rule.id });
    return rule;
  });

  routes.add(agentRoutes.DeleteRule, async ({ principal, params, auditTarget }) => {
    requireScope(principal, 'use');
    auditTarget({ target: params.rule });
    await host.rulesOf(principal.userId).delete(params.rule);
    return undefined;
  });
}
