/** Handlers that run code: executions, terminals, MCP. */

import { KeyedSerialQueue } from '../../../lib/queues.ts';
import type { executionRoutes, mcpRoutes, terminalRoutes } from '../../../protocol/api/execution-routes.ts';
import { capabilitiesOf, resolveExecutor } from '../../../protocol/enums.ts';
import { CellaError } from '../../../protocol/errors.ts';
import { admitExecution } from '../../quotas/user-quotas.ts';
import { type ByteReservation, perSessionLimit } from '../../request-limits.ts';
import type { ServerExecuteOptions } from '../../sessions/session-types.ts';
import { jsonResponse } from '../bodies.ts';
import { guardStream, negotiateFormat, SSE, streamEvents } from '../event-responses.ts';
import type { Call, Handlers } from '../router.ts';
import { abortConnection, type RequestContext, type ServerContext } from '../server-context.ts';
import { TerminalSocket } from '../terminal-socket.ts';

export function executionHandlers(service: ServerContext): Handlers<typeof executionRoutes> {
  const { sessions } = service;
  /** One at a time per user: a stored result is in memory until the last byte of JSON is written. */
  const storedResults = new KeyedSerialQueue<string>();

  return {
    executeCode: async ({ info, headers, body, principal, context, reauthorize, auditTarget }) => {
      const { code, stopWhenGone, ...limits } = body;
      const idempotencyKey = headers['Idempotency-Key'];
      const form = negotiateFormat(context.req.header('accept'));
      using place = new DisposableStack();
      if (form !== 'json') place.use(service.followers.enter(principal, form));
      await admitExecution(service, info, principal);
      const session = await sessions.open(info.id);
      // By default, the code continues if the client disconnects.
      const gone = stopWhenGone ? new AbortController() : undefined;
      const options: ServerExecuteOptions = { ...limits, by: principal.userId, idempotencyKey, signal: gone?.signal };
      if (gone) context.req.raw.signal.addEventListener('abort', () => gone.abort());
      const handle = await session.execute(code, options);
      const { id: execution, replayed, isStored, started } = handle;
      const answer = async () => ({ ...(await handle.outcome), execution, firstSeq: await started, replayed });
      if (form === 'json' && isStored) {
        return await storedResults.run(principal.userId, async () => jsonResponse(await answer()));
      }
      if (form === 'json') return await answer();
      // The stream starts at once, even if the execution has to wait.
      if (!isStored) auditTarget({}, handle.outcome);
      return streamEvents(service, session, {
        form,
        after: started.then((firstSeq) => firstSeq - 1),
        execution,
        place: place.move(),
        reauthorize,
        context,
        onGone: () => gone?.abort(),
      });
    },

    interruptCode: async ({ info, body: { idempotencyKey } }) => {
      const session = await sessions.open(info.id);
      const interrupted =
        idempotencyKey === undefined ? await session.interrupt() : await session.interruptKeyed(idempotencyKey);
      return { interrupted };
    },

    answerInput: async ({ info, body, principal }) => {
      const session = await sessions.open(info.id);
      const by = principal.userId;
      if ('text' in body) await session.answerInput(body.request, body.text, { by });
      else await session.cancelInput(body.request, { by, reason: body.reason });
    },
  };
}

/** Per session. */
const MOST_OPEN = 16;

export function terminalHandlers(service: ServerContext): Handlers<typeof terminalRoutes> {
  const { sessions, followers, requestAudit } = service;
  const open = perSessionLimit('terminals', MOST_OPEN);

  return {
    openTerminal: async ({ info, query: options, principal, context, reauthorize }) => {
      const { id, settings } = info;
      const { upgrade } = context.env;
      const executor = resolveExecutor(settings.executor);
      if (!capabilitiesOf(executor).subprocesses) {
        throw new CellaError('CAPABILITY_MISSING', `The executor ${executor} has no terminals.`);
      }
      using place = new DisposableStack();
      place.use(open.enter(id));
      place.use(followers.enter(principal, 'terminal'));
      await admitExecution(service, info, principal);
      // Checked last: a client whose upgrade was refused repeats it as a plain request to learn the reason.
      if (!upgrade) throw new CellaError('INVALID_REQUEST', 'This is a WebSocket: request an upgrade.');
      const session = await sessions.open(id);
      // If the kernel cannot start, the HTTP response reports it: a WebSocket close has little room for an error.
      await session.session();
      const log = context.get('log');
      upgrade.place = place.move();
      upgrade.accept = (socket, { unread, onRefused }) => {
        log.info({ session: id, user: principal.userName }, 'terminal opened');
        const left = (code: number) => {
          log.info({ session: id, user: principal.userName, code }, 'terminal closed');
          void requestAudit.done(context, { name: 'terminal.close', buffered: false }, { session: id });
        };
        new TerminalSocket(socket, { service, session, options, reauthorize, unread, onRefused, left, log });
      };
    },
  };
}

type McpRoute = (typeof mcpRoutes)[keyof typeof mcpRoutes];

/** `reserveBytes` counts the memory that a request body holds. */
export function mcpHandlers(
  service: ServerContext,
  reserveBytes: (context: RequestContext) => ByteReservation,
): Handlers<typeof mcpRoutes> {
  const { endpoints, closing, followers, limits } = service;
  closing.addEventListener('abort', () => endpoints.close());

  const answer = async ({ info, context, principal, reauthorize }: Call<McpRoute>): Promise<Response> => {
    using place = new DisposableStack();
    place.use(followers.enter(principal, 'sse'));
    const hold = place.use(reserveBytes(context));
    const { userId } = principal;
    const log = (line: string) => context.get('log').warn({ line }, 'mcp');
    const response = await endpoints.answer({ info, request: context.req.raw, userId, hold, log });
    const { body, headers } = response;
    if (!body || !headers.get('content-type')?.startsWith(SSE)) return new Response(body, response);
    const cut = () => abortConnection(context.env);
    return guardStream(response, { ...limits, reauthorize, place: place.move(), cut });
  };

  return {
    postMcp: answer,

    getMcp: answer,

    deleteMcp: answer,
  };
}
