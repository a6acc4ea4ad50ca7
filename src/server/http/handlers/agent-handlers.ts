/** Handlers for coding agents: prompts, turns, profiles, permissions. */

import { toStream } from '../../../lib/node-web.ts';
import { KeyedSerialQueue } from '../../../lib/queues.ts';
import type { agentRoutes, permissionRoutes, profileRoutes } from '../../../protocol/api/agent-routes.ts';
import type { Transcript } from '../../../protocol/turn.ts';
import type { PromptRequest } from '../../turns/session-turns.ts';
import { readConversationState } from '../../turns/turn-records.ts';
import { jsonResponse } from '../bodies.ts';
import { negotiateFormat, streamEvents } from '../event-responses.ts';
import type { Handlers } from '../router.ts';
import { abortConnection, type ServerContext } from '../server-context.ts';

export function agentHandlers(service: ServerContext): Handlers<typeof agentRoutes> {
  const { sessions, profiles, models, agents, storageQuota, followers } = service;
  /** One at a time per user: all turns and events of a session are in memory until the last byte of JSON is written. */
  const large = new KeyedSerialQueue<string>();

  return {
    promptAgent: async ({ info, headers, body, principal, context, reauthorize, auditTarget }) => {
      const { profile, wait = true, stopWhenGone = false, ...wanted } = body;
      const form = negotiateFormat(context.req.header('accept'));
      using place = new DisposableStack();
      if (form !== 'json') place.use(followers.enter(principal, form));
      // The turn's files and events are stored, but their size is not known in advance.
      await storageQuota.admit(info.ownerId);
      const content = profile === undefined ? undefined : await profiles.get(principal.userId, profile);
      const session = await sessions.open(info.id);
      // By default, the turn continues if the client disconnects.
      const gone = stopWhenGone ? new AbortController() : undefined;
      const request: PromptRequest = {
        ...wanted,
        by: principal.userId,
        profile: content && { name: content.name, content: content.profile },
        idempotencyKey: headers['Idempotency-Key'],
        signal: gone?.signal,
      };
      if (gone) context.req.raw.signal.addEventListener('abort', () => gone.abort());
      const { turn, replayed, info: accepted, started, ended } = await session.turns.prompt(request);
      if (form === 'json') return { ...(wait ? await ended : accepted), replayed };
      auditTarget({ target: turn }, ended);
      return streamEvents(service, session, {
        form,
        // The response confirms acceptance at once, even if the turn has to wait.
        after: started.then((firstSeq) => firstSeq - 1),
        turn,
        place: place.move(),
        reauthorize,
        context,
        onGone: () => gone?.abort(),
      });
    },

    stopAgent: async ({ info, body }) => {
      const session = await sessions.open(info.id);
      return { turns: [...(await session.turns.stop(body))] };
    },

    listCodingAgents: async () => ({ agents: await agents.list() }),

    warmAgent: async ({ info, params, principal }) => {
      const session = await sessions.open(info.id);
      return { warm: await session.turns.prestart({ agent: params.agent, by: principal.userId }) };
    },

    listTurns: async ({ info, query, principal }) => {
      const session = await sessions.open(info.id);
      return await large.run(principal.userId, async () => await jsonResponse(await session.turns.list(query)));
    },

    getTurn: async ({ info, params }) => {
      const session = await sessions.open(info.id);
      return await session.turns.get(params.turn);
    },

    readTranscript: async ({ info, query, context }) => {
      const session = await sessions.open(info.id);
      const { text, ...facts } = await session.turns.transcript(query.conversation);
      const chunks = transcriptJson(facts, text);
      const headers = { 'content-type': 'application/json' };
      return new Response(
        toStream(chunks, () => abortConnection(context.env)),
        { headers },
      );
    },

    readConversation: async ({ info, principal, context }) => {
      const session = await sessions.open(info.id);
      const { signal } = context.req.raw;
      return await large.run(principal.userId, async () => jsonResponse(await readConversationState(session, signal)));
    },

    readUsage: async ({ info }) => await models.usage.session(info.id),

    readOwnUsage: async ({ principal, query }) => {
      return { days: await models.usage.user(principal.userId, query) };
    },
  };
}

/** The answer, written while the text is read. */
async function* transcriptJson(
  facts: Omit<Transcript, 'text'>,
  text: AsyncIterable<string>,
): AsyncGenerator<Uint8Array> {
  yield Buffer.from(`${JSON.stringify(facts).slice(0, -1)},"text":"`);
  for await (const piece of text) yield Buffer.from(JSON.stringify(piece).slice(1, -1));
  yield Buffer.from('"}');
}

export function profileHandlers({ profiles }: ServerContext): Handlers<typeof profileRoutes> {
  /** One list at a time per user: all profiles of a user are in memory until the last byte of JSON is written. */
  const lists = new KeyedSerialQueue<string>();

  return {
    listProfiles: async ({ principal: { userId } }) =>
      await lists.run(userId, async () => jsonResponse({ profiles: await profiles.list(userId) })),

    getProfile: async ({ principal, params: { name } }) => {
      return await profiles.get(principal.userId, name);
    },

    setProfile: async ({ principal, params: { name }, body, auditTarget }) => {
      auditTarget({ target: name });
      return await profiles.put(principal.userId, name, body);
    },

    deleteProfile: async ({ principal, params: { name }, auditTarget }) => {
      auditTarget({ target: name });
      await profiles.delete(principal.userId, name);
    },
  };
}

export function permissionHandlers({ sessions }: ServerContext): Handlers<typeof permissionRoutes> {
  /** One list at a time per user: the inputs of all permissions are in memory until the last byte of JSON is written. */
  const lists = new KeyedSerialQueue<string>();

  return {
    listPermissions: async ({ info, query, principal }) => {
      const { permissions } = await sessions.open(info.id);
      const list = async () => jsonResponse({ permissions: await permissions.list(query.state) });
      return await lists.run(principal.userId, list);
    },

    getPermission: async ({ info, params }) => {
      const { permissions } = await sessions.open(info.id);
      return await permissions.get(params.permission);
    },

    decidePermission: async ({ info, params: { permission }, body, principal, auditTarget }) => {
      auditTarget({ target: permission });
      const { permissions } = await sessions.open(info.id);
      if (body.decision !== 'abstain') return await permissions.decide(principal.userId, permission, body);
      const found = await permissions.get(permission);
      permissions.responders.abstain(permission, body.responder);
      return found;
    },

    listSessionRules: async ({ info }) => {
      const { permissions } = await sessions.open(info.id);
      return { rules: await permissions.rules.list() };
    },

    deleteSessionRule: async ({ info, params, auditTarget }) => {
      auditTarget({ target: params.rule });
      const { permissions } = await sessions.open(info.id);
      await permissions.rules.delete(params.rule);
    },

    listRules: async ({ principal }) => ({ rules: await sessions.rulesOf(principal.userId).list() }),

    createRule: async ({ principal, body, auditTarget }) => {
      const rule = await sessions.rulesOf(principal.userId).add(body, principal.userId);
      auditTarget({ target: rule.id });
      return rule;
    },

    deleteRule: async ({ principal, params, auditTarget }) => {
      auditTarget({ target: params.rule });
      await sessions.rulesOf(principal.userId).delete(params.rule);
    },
  };
}
