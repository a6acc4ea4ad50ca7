/** Handlers for the events of a session: a page, a stream, a WebSocket, and output files. */

import type { eventRoutes } from '../../../protocol/api/execution-routes.ts';
import type { RouteAudit } from '../../../protocol/api/route.ts';
import { CellaError } from '../../../protocol/errors.ts';
import type { StreamItem } from '../../../protocol/session-events.ts';
import { matchesFilter } from '../../events/event-stream.ts';
import type { ServerSession } from '../../sessions/server-session.ts';
import { downloadResponse } from '../bodies.ts';
import { negotiateFormat, streamEvents } from '../event-responses.ts';
import { abortConnection } from '../request-context.ts';
import type { Handlers } from '../router.ts';
import type { ServerContext } from '../server-context.ts';
import { SessionSocket } from '../session-socket.ts';

/** Of the events on one page, about. */
const MOST_PAGE_CHARACTERS = 4_000_000;
/** How many events one page looks through for those that are asked for. */
const MOST_LOOKED_AT = 10_000;

export function eventHandlers(service: ServerContext): Handlers<typeof eventRoutes> {
  const { host, requestAudit } = service;

  return {
    readEvents: async ({ info, query, headers, principal, context, reauthorize }) => {
      const session = await host.open(info.id);
      const form = negotiateFormat(context.req.header('accept'));
      const after = lastEventId(headers['Last-Event-ID']) ?? query.after;
      if (form === 'json') return await eventPage(session, { ...query, after });
      service.followers.check(principal);
      return streamEvents(service, session, {
        form,
        after,
        execution: query.execution,
        turn: query.turn,
        principal,
        reauthorize,
        cut: () => abortConnection(context.env),
      });
    },

    followEvents: async ({ info, query, principal, context, reauthorize }) => {
      const { upgrade } = context.env;
      const { after, permissions } = query;
      if (permissions) await reauthorize('use');
      if (!upgrade) throw new CellaError('INVALID_REQUEST', 'This is a WebSocket: ask for an upgrade.');
      const session = await host.open(info.id);
      const log = context.get('log');
      service.followers.check(principal);
      const audit = (entry: RouteAudit | undefined, outcome: Promise<unknown>) =>
        void requestAudit.settled(context, entry, { session: info.id }, outcome);
      upgrade.accept = (socket) => {
        const left = service.followers.enter(principal, 'websocket');
        const responds = permissions === 'answer';
        new SessionSocket(socket, { service, session, principal, after, responds, reauthorize, audit, left, log });
      };
    },

    readOutput: async ({ info, params, query, context }) => {
      const output = await (await host.open(info.id)).openOutput(params.file);
      return downloadResponse(output.read({ offset: query.offset }), {
        bytes: Math.max(0, output.bytes - query.offset),
        name: params.file,
        mediaType: output.mediaType,
        cut: () => abortConnection(context.env),
      });
    },
  };
}

/** What there is now. A page that is full, or for which enough was looked at, says where to go on: `next`, up to `last`. */
async function eventPage(session: ServerSession, { after, limit, execution, turn }: EventPageOptions) {
  const { trimmedThrough, last } = await session.position();
  const events: StreamItem[] = [];
  let next = Math.max(after, trimmedThrough);
  if (next >= last) return { events, trimmedThrough, last, next: Math.max(after, Math.min(next, last)) };
  const from = next;
  const over = new AbortController();
  let characters = 0;
  // Looked through here: what still runs may have nothing more to tell for long.
  for await (const event of session.events({ after, signal: over.signal })) {
    if (!('seq' in event)) {
      events.push(event);
      continue;
    }
    next = event.seq;
    if (matchesFilter(event, { execution, turn })) {
      events.push(event);
      characters += JSON.stringify(event).length;
    }
    const full = events.length >= limit || characters > MOST_PAGE_CHARACTERS;
    if (full || next >= Math.min(last, from + MOST_LOOKED_AT)) break;
  }
  over.abort();
  return { events, trimmedThrough, last, next };
}

interface EventPageOptions {
  readonly after: number;
  readonly limit: number;
  readonly execution?: string | undefined;
  readonly turn?: string | undefined;
}

/** What a browser sends by itself when it connects again. */
function lastEventId(given: string | undefined): number | undefined {
  return given !== undefined && /^\d{1,15}$/.test(given) ? Number(given) : undefined;
}
