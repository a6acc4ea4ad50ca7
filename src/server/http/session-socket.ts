/**
 * One client of a session on a WebSocket: events go out in order, as fast as it reads; what it asks for comes in.
 *
 * Events are taken from the log one after the other, and only while the connection has room: a client that does not
 * read costs a bounded buffer, and is let go after a while. Every frame is checked again: a token that was revoked
 * ends with it.
 */

import type { Logger } from 'pino';
import type { RawData, WebSocket } from 'ws';
import { parseCheapJson } from '../../lib/json-scanner.ts';
import { omitUndefined } from '../../lib/omit-undefined.ts';
import type { RouteAudit } from '../../protocol/api/route.ts';
import { frameRoutes } from '../../protocol/api/routes.ts';
import { ClientFrame, CloseCode, FrameId } from '../../protocol/api/socket-frames.ts';
import type { Principal } from '../access/authorization.ts';
import type { Responder } from '../permissions/session-permissions.ts';
import { admitExecution } from '../quotas/admission.ts';
import { drainingError } from '../request-errors.ts';
import type { ServerSession } from '../sessions/server-session.ts';
import { errorBody, invalidRequest, toCellaError } from './error-response.ts';
import { admitRequest, type Reauthorize } from './router.ts';
import type { ServerContext } from './server-context.ts';
import { SocketConnection } from './socket-connection.ts';

export interface SessionSocketOptions {
  readonly service: ServerContext;
  readonly session: ServerSession;
  readonly principal: Principal;
  readonly after: number;
  /** Whether it answers permission requests. */
  readonly responds: boolean;
  readonly reauthorize: Reauthorize;
  /** Writes into the audit log what it asked for, and what came of it. */
  readonly audit: (entry: RouteAudit | undefined, outcome: Promise<unknown>) => void;
  /** Told when it has gone. */
  readonly left: () => void;
  readonly log: Logger;
}

/** Frames of one client that are worked on at a time. */
const MOST_AT_WORK = 64;

export class SessionSocket {
  readonly #options: SessionSocketOptions;
  readonly #responder: Responder | undefined;
  readonly #connection: SocketConnection;
  #atWork = 0;

  constructor(socket: WebSocket, options: SessionSocketOptions) {
    this.#options = options;
    const { service, log, principal, session, reauthorize } = options;
    const warn = () => void this.#connection.outbox.send({ type: 'stopping' });
    service.stopping.addEventListener('abort', warn, { once: true });
    this.#responder = options.responds ? session.permissions.join() : undefined;
    const onClosed = (code: number) => {
      this.#responder?.leave();
      service.stopping.removeEventListener('abort', warn);
      options.left();
      log.info({ session: session.id, user: principal.userName, code }, 'websocket closed');
    };
    log.info({ session: session.id, user: principal.userName }, 'websocket opened');
    this.#connection = new SocketConnection(socket, { service, reauthorize, log, onClosed });
    socket.on('message', (data, binary) => this.#take(data, binary));
    if (!this.#connection.over.aborted) void this.#send();
  }

  async #send(): Promise<void> {
    const { session, after } = this.#options;
    const signal = this.#connection.over;
    try {
      const responder = this.#responder && { responder: this.#responder.id };
      await this.#connection.outbox.send({
        type: 'hello',
        session: session.id,
        ...(await session.position()),
        ...responder,
      });
      for await (const event of session.events({ after, signal })) {
        await this.#connection.outbox.send(event);
        if (signal.aborted) return;
      }
      this.#connection.close(CloseCode.gone, 'the session was deleted');
    } catch (error) {
      if (signal.aborted) return;
      const { code, message } = toCellaError(error, '-');
      const [why, reason] = closeReasons[code] ?? [CloseCode.failed, message];
      this.#connection.close(why, reason.slice(0, 100));
    }
  }

  #take(data: RawData, binary: boolean): void {
    if (this.#connection.over.aborted) return;
    const frame = binary ? undefined : frameOf(String(data));
    if (!this.#connection.budget.frame() || this.#atWork >= MOST_AT_WORK)
      this.#connection.close(CloseCode.tooMuch, 'too many frames');
    else if (!frame) this.#connection.close(CloseCode.wrong, 'no JSON text');
    else {
      this.#atWork++;
      void this.#answer(frame).finally(() => {
        this.#atWork--;
      });
    }
  }

  async #answer(given: unknown): Promise<void> {
    const parsed = ClientFrame.safeParse(given);
    const id = FrameId.safeParse(given).data?.id;
    try {
      if (!parsed.success) throw invalidRequest(parsed.error);
      await this.#connection.outbox.send({
        type: 'reply',
        id: parsed.data.id,
        result: await this.#carryOut(parsed.data),
      });
    } catch (error) {
      const told = toCellaError(error, '-');
      if (told.code === 'INTERNAL') this.#options.log.error({ err: error }, 'unexpected');
      if (told.code === 'UNAUTHENTICATED') this.#connection.close(CloseCode.refused, 'the token is no longer good');
      else await this.#connection.outbox.send({ type: 'error', id, ...errorBody(told) });
    }
  }

  async #carryOut(frame: ClientFrame): Promise<unknown> {
    if (frame.type === 'ping') return {};
    const work = this.#work(frame);
    this.#options.audit(
      frameRoutes[frame.type].audit,
      work.then(({ outcome }) => outcome),
    );
    return (await work).reply;
  }

  async #work(frame: Exclude<ClientFrame, { type: 'ping' }>): Promise<FrameOutcome> {
    const { service, session, reauthorize } = this.#options;
    const principal = await reauthorize(frameRoutes[frame.type].auth.right);
    const { userId: by } = principal;
    admitRequest(service.access, principal);
    switch (frame.type) {
      case 'execute': {
        if (service.stopping.aborted) throw drainingError();
        await admitExecution(service, await service.host.get(session.id));
        const { type, id, code, ...options } = frame;
        const handle = await session.execute(code, { ...omitUndefined(options), by });
        const { id: execution, replayed, started, outcome } = handle;
        return { reply: { execution, firstSeq: await started, replayed }, outcome };
      }
      case 'interrupt':
        return { reply: { interrupted: await session.interrupt() } };
      case 'input':
        await session.answerInput(frame.request, frame.text, { by });
        return {};
      case 'cancel_input':
        await session.cancelInput(frame.request, { by, ...omitUndefined({ reason: frame.reason }) });
        return {};
      case 'permission':
        return { reply: await session.permissions.decide(by, frame.permission, frame.decision) };
    }
  }
}

/** What a frame is answered with, and what it comes to where that takes longer. */
interface FrameOutcome {
  readonly reply?: unknown;
  readonly outcome?: Promise<unknown>;
}

const closeReasons: Partial<Record<string, readonly [number, string]>> = {
  SERVER_STOPPING: [CloseCode.stopping, 'the server is ending'],
  SESSION_ELSEWHERE: [CloseCode.moved, 'the session has moved'],
  NOT_FOUND: [CloseCode.gone, 'the session was deleted'],
};

function frameOf(text: string): object | undefined {
  const value = parseCheapJson(text);
  return typeof value === 'object' && value !== null ? value : undefined;
}
