/**
 * Serves one client of a session on a WebSocket: sends events in order, as fast as the client reads, and handles its frames.
 *
 * Events are read from the log one by one, and only while the connection has room. A client that does not read costs a
 * bounded buffer and is disconnected after a while. Every frame is authorized again, so a revoked token ends the connection.
 */

import type { Logger } from 'pino';
import type { RawData, WebSocket } from 'ws';
import { inTurns } from '../../lib/event-loop.ts';
import { MOST_CLIENT_EFFORT, SMALL_BYTES, scanInSteps, tryParseJson } from '../../lib/json-scanner.ts';
import { omitUndefined } from '../../lib/values.ts';
import type { RouteAudit } from '../../protocol/api/route.ts';
import { frameRoutes } from '../../protocol/api/routes.ts';
import { ClientFrame, CloseCode, FrameId } from '../../protocol/api/socket-frames.ts';
import type { StreamItem } from '../../protocol/session-events.ts';
import type { Principal } from '../access/authorization.ts';
import type { Responder } from '../permissions/session-permissions.ts';
import { admitExecution } from '../quotas/user-quotas.ts';
import { drainingError } from '../server-control.ts';
import type { ServerSession } from '../sessions/server-session.ts';
import { errorBody, invalidRequest, toCellaError } from './error-response.ts';
import { admitRequest, type Reauthorize } from './router.ts';
import type { CountUnread, ReportRefusal, ServerContext } from './server-context.ts';
import { SocketConnection } from './socket-connection.ts';

interface SessionSocketOptions {
  readonly service: ServerContext;
  readonly session: ServerSession;
  readonly principal: Principal;
  readonly after: number;
  /** Whether it answers permission requests. */
  readonly responds: boolean;
  readonly reauthorize: Reauthorize;
  /** Writes the request and its outcome to the audit log. */
  readonly audit: (entry: RouteAudit | undefined, outcome: Promise<unknown>) => void;
  readonly unread: CountUnread;
  readonly onRefused: ReportRefusal;
  readonly log: Logger;
}

/** Concurrent frames per client. */
const MOST_AT_WORK = 64;

export class SessionSocket {
  readonly #socket: WebSocket;
  readonly #options: SessionSocketOptions;
  readonly #responder: Responder | undefined;
  readonly #connection: SocketConnection;
  #atWork = 0;
  /** Frames that are being parsed, and frames queued behind them. */
  #unread = 0;
  #reading: Promise<void> = Promise.resolve();

  constructor(socket: WebSocket, options: SessionSocketOptions) {
    this.#socket = socket;
    this.#options = options;
    const { service, log, principal, session, reauthorize, unread, onRefused } = options;
    const warn = () => this.#connection.run(this.#connection.sendQueue.send({ type: 'draining' }));
    service.draining.addEventListener('abort', warn, { once: true });
    this.#responder = options.responds ? session.permissions.responders.join() : undefined;
    const onClosed = (code: number) => {
      this.#responder?.leave();
      service.draining.removeEventListener('abort', warn);
      log.info({ session: session.id, user: principal.userName, code }, 'websocket closed');
    };
    log.info({ session: session.id, user: principal.userName }, 'websocket opened');
    this.#connection = new SocketConnection(socket, {
      ...{ service, reauthorize, log, unread, onRefused, onClosed },
      canResume: true,
    });
    socket.on('message', (data, binary) => this.#take(data, binary));
    if (!this.#connection.over.aborted) this.#connection.run(this.#send());
  }

  async #send(): Promise<void> {
    const { session, after } = this.#options;
    const { over: signal, memory } = this.#connection;
    try {
      const responder = this.#responder && { responder: this.#responder.id };
      await this.#connection.sendQueue.send({
        type: 'hello',
        session: session.id,
        ...(await session.position()),
        ...responder,
      });
      this.#connection.startHeartbeats();
      const events = session.events({ after, signal, memory })[Symbol.asyncIterator]();
      while (await this.#sendNext(events));
      if (signal.aborted) return;
      this.#connection.close(CloseCode.gone, 'the session was deleted');
    } catch (error) {
      if (signal.aborted) return;
      const { code, message } = toCellaError(error, '-');
      const [why, reason] = closeReasons[code] ?? [CloseCode.failed, message];
      this.#connection.close(why, reason);
    }
  }

  /** Sends one event; false at the end. A loop over events would keep the last one in memory while it waits. */
  async #sendNext(events: AsyncIterator<StreamItem>): Promise<boolean> {
    const { done, value } = await events.next();
    if (done) return false;
    await this.#connection.sendQueue.send(value);
    if (!this.#connection.over.aborted) return true;
    await events.return?.();
    return false;
  }

  /** Parses large frames in turns with other work. Later frames wait, to keep the order. */
  #take(data: RawData, binary: boolean): void {
    const bytes = binary || !Buffer.isBuffer(data) ? Buffer.alloc(0) : data;
    if (this.#unread === 0 && bytes.length <= SMALL_BYTES) {
      this.#begin(bytes, true);
      return;
    }
    if (this.#unread++ === 0) this.#socket.pause();
    this.#reading = this.#reading
      .then(async () => this.#begin(bytes, await inTurns(scanInSteps(bytes, MOST_CLIENT_EFFORT))))
      .finally(() => {
        if (--this.#unread === 0) this.#socket.resume();
      });
    this.#connection.run(this.#reading);
  }

  #begin(bytes: Buffer, isCheap: boolean): void {
    if (this.#connection.over.aborted) return;
    const frame = isCheap ? tryParseJson(bytes.toString()) : undefined;
    if (!this.#connection.budget.frame() || this.#atWork >= MOST_AT_WORK)
      this.#connection.close(CloseCode.tooMuch, 'too many frames');
    else if (typeof frame !== 'object' || frame === null) this.#connection.close(CloseCode.wrong, 'no JSON text');
    else {
      this.#atWork++;
      const answered = this.#answer(frame).finally(() => {
        this.#atWork--;
      });
      this.#connection.run(answered);
    }
  }

  async #answer(given: unknown): Promise<void> {
    const parsed = ClientFrame.safeParse(given);
    const id = FrameId.safeParse(given).data?.id;
    try {
      if (!parsed.success) throw invalidRequest(parsed.error);
      await this.#connection.sendQueue.send({
        type: 'reply',
        id: parsed.data.id,
        result: await this.#carryOut(parsed.data),
      });
    } catch (error) {
      const failure = toCellaError(error, '-');
      if (failure.code === 'INTERNAL') this.#options.log.error({ err: error }, 'unexpected');
      if (failure.code === 'UNAUTHENTICATED') this.#connection.close(CloseCode.refused, 'the token is no longer valid');
      else await this.#connection.sendQueue.send({ type: 'error', id, ...errorBody(failure) });
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
        if (service.draining.aborted) throw drainingError();
        await admitExecution(service, await service.sessions.get(session.id), principal);
        const { type, id, code, ...options } = frame;
        const handle = await session.execute(code, { ...omitUndefined(options), by });
        const { id: execution, replayed, isStored, started } = handle;
        const reply = { execution, firstSeq: await started, replayed };
        return isStored ? { reply } : { reply, outcome: handle.outcome };
      }
      case 'interrupt':
        return { reply: { interrupted: await session.interrupt() } };
      case 'input':
        await session.answerInput(frame.request, frame.text, { by });
        return {};
      case 'cancel_input':
        await session.cancelInput(frame.request, { by, reason: frame.reason });
        return {};
      case 'permission':
        return { reply: await session.permissions.decide(by, frame.permission, frame.decision) };
    }
  }
}

/** The reply to a frame, and its outcome if that takes longer. */
interface FrameOutcome {
  readonly reply?: unknown;
  readonly outcome?: Promise<unknown>;
}

const closeReasons: Partial<Record<string, readonly [number, string]>> = {
  SERVER_STOPPING: [CloseCode.closing, 'the server is shutting down'],
  SESSION_ELSEWHERE: [CloseCode.moved, 'the session has moved'],
  NOT_FOUND: [CloseCode.gone, 'the session was deleted'],
};
