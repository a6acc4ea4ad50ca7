/** Coding agents: prompt one, follow or wait for its turn, stop it, and look at what it did. */

import * as agentRoutes from '../../../protocol/api/agent-routes.ts';
import { ReadConversation } from '../../../protocol/api/agent-routes.ts';
import { requireScope } from '../../access/authorization.ts';
import type { PromptRequest } from '../../turns/session-turns.ts';
import { readConversationState } from '../../turns/turn-records.ts';
import { cut } from '../exchange.ts';
import { feed } from '../feed.ts';
import { idempotencyKeyOf } from '../idempotency-key.ts';
import type { Service } from '../service.ts';
import { formOf } from '../streams.ts';

export function addAgentRoutes(service: Service): void {
  const { routes, host, profiles, models, codingAgents, room } = service;

  routes.session(agentRoutes.PromptAgent, async ({ info, body, principal, context, recheck, about }) => {
    const { profile, wait = true, stopWhenGone = false, ...wanted } = body;
    // What it writes and says is kept, and how much that will be is known to nobody.
    await room.admit(info.ownerId);
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
    const form = formOf(context.req.header('accept'));
    if (form !== 'json') service.followers.check(principal);
    const { turn, joined, info: accepted, started, ended } = await session.turns.prompt(wish);
    if (form === 'json') return { ...(wait ? await ended : accepted), joined };
    about({ target: turn }, ended);
    return feed(service, session, {
      form,
      // Told at once that it was accepted, however long it waits.
      after: started.then((firstSeq) => firstSeq - 1),
      turn,
      principal,
      recheck,
      cut: () => cut(context.env),
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
