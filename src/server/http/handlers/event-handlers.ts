/** Handlers for the events of a session: a page, a stream, a WebSocket, and output files. */

import { KeyedSerialQueue } from '../../../lib/queues.ts';
import type { eventRoutes } from '../../../protocol/api/execution-routes.ts';
import type { RouteAudit } from '../../../protocol/api/route.ts';
import { CellaError } from '../../../protocol/errors.ts';
import type { StreamItem } from '../../../protocol/session-events.ts';
import { matchesFilter } from '../../events/event-stream.ts';
import type { ServerSession } from '../../sessions/server-session.ts';
import { downloadResponse } from '../bodies.ts';
import { negotiateFormat, streamEvents } from '../event-responses.ts';
import type { Handlers } from '../router.ts';
import { abortConnection, type ServerContext } from '../server-context.ts';
import { SessionSocket } from '../session-socket.ts';

/** Approximate limit on the events of one page. */
const MOST_PAGE_CHARACTERS = 4_000_000;
/** How many events a filtered page scans at most. */
const MOST_LOOKED_AT = 10_000;

export function eventHandlers(service: ServerContext): Handlers<typeof eventRoutes> {
  const { sessions, followers, requestAudit } = service;
  /** One page at a time per user: building a page holds all its events in memory. */
  const pages = new KeyedSerialQueue<string>();

  return {
    readEvents: async ({ info, query, headers, principal, context, reauthorize }) => {
      const form = negotiateFormat(context.req.header('accept'));
      using place = new DisposableStack();
      if (form !== 'json') place.use(followers.enter(principal, form));
      const session = await sessions.open(info.id);
      const after = lastEventId(headers['Last-Event-ID']) ?? query.after;
      if (form === 'json') {
        const { signal } = context.req.raw;
        return await pages.run(principal.userId, () => eventPage(session, { ...query, after, signal }));
      }
      const { execution, turn } = query;
      return streamEvents(service, session, {
        form,
        after,
        execution,
        turn,
        place: place.move(),
        reauthorize,
        context,
      });
    },

    followEvents: async ({ info, query, principal, context, reauthorize }) => {
      const { upgrade } = context.env;
      const { after, permissions } = query;
      if (permissions) await reauthorize('use');
      if (!upgrade) throw new CellaError('INVALID_REQUEST', 'This is a WebSocket: request an upgrade.');
      using place = new DisposableStack();
      place.use(followers.enter(principal, 'websocket'));
      const session = await sessions.open(info.id);
      const log = context.get('log');
      const audit = (entry: RouteAudit | undefined, outcome: Promise<unknown>) =>
        void requestAudit.settled(context, entry, { session: info.id }, outcome);
      upgrade.place = place.move();
      upgrade.accept = (socket, { unread, onRefused }) => {
        const responds = permissions === 'answer';
        const options = { service, session, principal, after, responds, reauthorize, audit, unread, onRefused, log };
        new SessionSocket(socket, options);
      };
    },

    readOutput: async ({ info, params, query, context }) => {
      const output = await (await sessions.open(info.id)).openOutput(params.file);
      return downloadResponse(output.read({ offset: query.offset }), {
        bytes: Math.max(0, output.bytes - query.offset),
        name: params.file,
        mediaType: output.mediaType,
        cut: () => abortConnection(context.env),
      });
    },
  };
}

/** One page of existing events. If it is full, or has scanned enough, `next` says where to continue, up to `last`. */
async function eventPage(session: ServerSession, { after, limit, execution, turn, signal }: EventPageOptions) {
  const { trimmedThrough, last } = await session.position();
  const events: StreamItem[] = [];
  let next = Math.max(after, trimmedThrough);
  if (next >= last) return { events, trimmedThrough, last, next: Math.max(after, Math.min(next, last)) };
  const from = next;
  const over = new AbortController();
  let characters = 0;
  // Filter here: a filtered stream of a running execution might wait long for its next event.
  for await (const event of session.events({ after, signal: AbortSignal.any([signal, over.signal]) })) {
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
  /** Aborted if the client disconnects. */
  readonly signal: AbortSignal;
}

/** The header that a browser sends when it reconnects. */
function lastEventId(given: string | undefined): number | undefined {
  return given !== undefined && /^\d{1,15}$/.test(given) ? Number(given) : undefined;
}
