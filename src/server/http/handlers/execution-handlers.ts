/** Handlers that run code: executions, terminals, MCP. */

import type { executionRoutes, mcpRoutes, terminalRoutes } from '../../../protocol/api/execution-routes.ts';
import { CloseCode } from '../../../protocol/api/socket-frames.ts';
import { capabilitiesOf, resolveExecutor } from '../../../protocol/enums.ts';
import { CellaError } from '../../../protocol/errors.ts';
import { admitExecution } from '../../quotas/admission.ts';
import type { ByteReservation } from '../../request-limits.ts';
import { perSessionLimit } from '../../request-limits.ts';
import type { ServerExecuteOptions } from '../../sessions/session-types.ts';
import { checkedRequest } from '../bodies.ts';
import { guardStream, negotiateFormat, SSE, streamEvents } from '../event-responses.ts';
import { abortConnection, type RequestContext } from '../request-context.ts';
import type { Call, Handlers } from '../router.ts';
import type { ServerContext } from '../server-context.ts';
import { TerminalSocket } from '../terminal-socket.ts';

export function executionHandlers(service: ServerContext): Handlers<typeof executionRoutes> {
  const { host } = service;

  return {
    executeCode: async ({ info, headers, body, principal, context, reauthorize, auditTarget }) => {
      const { code, stopWhenGone, timeoutMs, inputTimeoutMs, transaction } = body;
      const idempotencyKey = headers['Idempotency-Key'];
      await admitExecution(service, info);
      const session = await host.open(info.id);
      // Whoever only wanted to start it may go.
      const gone = stopWhenGone ? new AbortController() : undefined;
      const options: ServerExecuteOptions = {
        by: principal.userId,
        timeoutMs,
        inputTimeoutMs,
        transaction,
        idempotencyKey,
        signal: gone?.signal,
      };
      if (gone) context.req.raw.signal.addEventListener('abort', () => gone.abort());
      const form = negotiateFormat(context.req.header('accept'));
      if (form !== 'json') service.followers.check(principal);
      const { id: execution, replayed, started, outcome } = await session.execute(code, options);
      if (form === 'json') return { ...(await outcome), execution, firstSeq: await started, replayed };
      // The stream starts at once, however long the execution waits.
      auditTarget({}, outcome);
      return streamEvents(service, session, {
        form,
        after: started.then((firstSeq) => firstSeq - 1),
        execution,
        principal,
        reauthorize,
        cut: () => abortConnection(context.env),
        onGone: () => gone?.abort(),
      });
    },

    interruptCode: async ({ info, body: { idempotencyKey } }) => {
      const session = await host.open(info.id);
      const interrupted =
        idempotencyKey === undefined ? await session.interrupt() : await session.interruptKeyed(idempotencyKey);
      return { interrupted };
    },

    answerInput: async ({ info, body, principal }) => {
      const session = await host.open(info.id);
      const by = principal.userId;
      if ('text' in body) await session.answerInput(body.request, body.text, { by });
      else await session.cancelInput(body.request, { by, reason: body.reason });
    },
  };
}

/** Of one session at a time. */
const MOST_OPEN = 16;

export function terminalHandlers(service: ServerContext): Handlers<typeof terminalRoutes> {
  const { host, followers, requestAudit } = service;
  const open = perSessionLimit('terminals', MOST_OPEN);

  return {
    openTerminal: async ({ info, query: wish, principal, context, reauthorize }) => {
      const { id, settings } = info;
      const { upgrade } = context.env;
      const executor = resolveExecutor(settings.executor);
      if (!capabilitiesOf(executor).subprocesses) {
        throw new CellaError('CAPABILITY_MISSING', `The executor ${executor} has no terminals.`);
      }
      open.check(id);
      followers.check(principal);
      await admitExecution(service, info);
      // Last: whoever was refused as a WebSocket, and not told why, hears the reason from a request.
      if (!upgrade) throw new CellaError('INVALID_REQUEST', 'This is a WebSocket: ask for an upgrade.');
      const session = await host.open(id);
      // A kernel that cannot be is told as an answer: a WebSocket has few words for it.
      await session.session();
      const log = context.get('log');
      upgrade.accept = (socket) => {
        if (open.isFull(id)) return void socket.close(CloseCode.tooMuch, 'too many terminals');
        const gone = followers.enter(principal, 'terminal');
        const leave = open.enter(id);
        log.info({ session: id, user: principal.userName }, 'terminal opened');
        const left = (code: number) => {
          gone();
          leave();
          log.info({ session: id, user: principal.userName, code }, 'terminal closed');
          void requestAudit.done(context, { name: 'terminal.close', buffered: false }, { session: id });
        };
        new TerminalSocket(socket, { service, session, wish, reauthorize, left, log });
      };
    },
  };
}

type McpRoute = (typeof mcpRoutes)[keyof typeof mcpRoutes];

/** What the transport of MCP takes. */
const MOST_MESSAGE_BYTES = 4 * 1024 * 1024;

/** `reserveBytes` counts what the body of a request holds in memory. */
export function mcpHandlers(
  service: ServerContext,
  reserveBytes: (context: RequestContext) => ByteReservation,
): Handlers<typeof mcpRoutes> {
  const { endpoints, ending, followers, limits } = service;
  ending.addEventListener('abort', () => endpoints.close());

  const light = async (context: RequestContext) => {
    using hold = reserveBytes(context);
    return await checkedRequest(context.req.raw, MOST_MESSAGE_BYTES, hold);
  };

  const answer = async ({ info, context, principal, reauthorize }: Call<McpRoute>): Promise<Response> => {
    if (!endpoints) throw new CellaError('CAPABILITY_MISSING', 'Sessions of this server are no MCP servers.');
    followers.check(principal);
    const log = context.get('log');
    const endpoint = await endpoints.of(info, (line) => log.warn({ line }, 'mcp'));
    const response = await endpoint.fetch(await light(context));
    const { body, headers } = response;
    if (!body || !headers.get('content-type')?.startsWith(SSE)) return new Response(body, response);
    const onEnd = followers.enter(principal, 'sse');
    return new Response(
      guardStream(body, { ...limits, reauthorize, onEnd, cut: () => abortConnection(context.env) }),
      response,
    );
  };

  return {
    postMcp: answer,

    getMcp: answer,

    deleteMcp: answer,
  };
}
