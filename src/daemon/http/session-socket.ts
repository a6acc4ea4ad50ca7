/**
 * One client of a session on a WebSocket: events go out in order, as fast as it reads; what it asks for comes in.
 *
 * Events are taken from the log one after the other, and only while the connection has room: a client that does not
 * read costs a bounded buffer, and is let go after a while. Every frame is checked again: a token that was revoked
 * ends with it.
 */

import type { RawData, WebSocket } from 'ws';
import { CellaError } from '../../protocol/errors.ts';
import { ClientFrame, CloseCode, FrameId } from '../../protocol/http/frames.ts';
import type { Principal } from '../access/contract.ts';
import type { Attendant } from '../sessions/approvals.ts';
import type { HostedSession } from '../sessions/contract.ts';
import { failureOf, invalid, toCellaError } from './failure.ts';
import { refusalOf } from './feed.ts';
import { FrameBudget } from './frame-budget.ts';
import type { Logger } from './logs.ts';
import { Outbox } from './outbox.ts';
import type { Recheck } from './router.ts';
import type { Service } from './service.ts';

export interface SocketOptions {
  readonly service: Service;
  readonly session: HostedSession;
  /** The id of the user whose session it is. */
  readonly owner: string;
  readonly principal: Principal;
  readonly after: number;
  /** Whether it answers approvals. */
  readonly attends: boolean;
  readonly recheck: Recheck;
  /** Writes into the audit log what it did. */
  readonly audit: (action: string) => void;
  /** Told when it has gone. */
  readonly left: () => void;
  readonly log: Logger;
}

/** How long the other side has to answer that it is closed. */
const CLOSING_MS = 2000;
/** Frames of one client that are worked on at a time. */
const MOST_AT_WORK = 64;

export class SessionSocket {
  readonly #socket: WebSocket;
  readonly #options: SocketOptions;
  readonly #over = new AbortController();
  readonly #budget = new FrameBudget();
  readonly #outbox: Outbox;
  readonly #attendant: Attendant | undefined;
  #alive = true;
  #atWork = 0;

  constructor(socket: WebSocket, options: SocketOptions) {
    this.#socket = socket;
    this.#options = options;
    const { streams } = options.service;
    this.#outbox = new Outbox(socket, streams, this.#over.signal, () => this.close(CloseCode.slow, 'too slow'));
    const { service, log, principal, session } = options;
    const heartbeat = setInterval(() => void this.#beat(), service.streams.heartbeatMs);
    const stop = () => this.close(CloseCode.stopping, 'the server is ending');
    const warn = () => void this.#outbox.put({ type: 'stopping' });
    service.ending.addEventListener('abort', stop, { once: true });
    service.stopping.addEventListener('abort', warn, { once: true });
    socket.on('message', (data, binary) => this.#take(data, binary));
    socket.on('ping', (data) => this.#pong(data));
    socket.on('pong', () => {
      this.#alive = true;
      if (!this.#budget.control()) this.close(CloseCode.tooMuch, 'too many frames');
    });
    // What is no WebSocket frame, or too large; the socket closes itself.
    socket.on('error', (error) => log.debug({ reason: error.message }, 'websocket'));
    this.#attendant = options.attends ? session.attend() : undefined;
    socket.once('close', (code) => {
      clearInterval(heartbeat);
      this.#attendant?.leave();
      service.ending.removeEventListener('abort', stop);
      service.stopping.removeEventListener('abort', warn);
      this.#over.abort();
      options.left();
      log.info({ session: session.id, user: principal.userName, code }, 'websocket closed');
    });
    log.info({ session: session.id, user: principal.userName }, 'websocket opened');
    if (service.ending.aborted) stop();
    else void this.#send();
  }

  /** The client is told why; one that does not answer is cut off. */
  close(code: number, reason: string): void {
    if (this.#over.signal.aborted) return;
    this.#over.abort();
    if (code === CloseCode.slow || code === CloseCode.refused) this.#options.service.metrics.dropped(reason);
    this.#socket.close(code, reason);
    setTimeout(() => this.#socket.terminate(), CLOSING_MS).unref();
  }

  async #send(): Promise<void> {
    const { session, after } = this.#options;
    const { signal } = this.#over;
    try {
      const attendant = this.#attendant && { attendant: this.#attendant.id };
      await this.#outbox.put({ type: 'hello', session: session.id, ...(await session.position()), ...attendant });
      for await (const event of session.events({ after, signal })) {
        await this.#outbox.put(event);
        if (signal.aborted) return;
      }
      this.close(CloseCode.gone, 'the session was deleted');
    } catch (error) {
      if (signal.aborted) return;
      const { code, message } = toCellaError(error, '-');
      const [why, reason] = endings[code] ?? [CloseCode.failed, message];
      this.close(why, reason.slice(0, 100));
    }
  }

  #take(data: RawData, binary: boolean): void {
    if (this.#over.signal.aborted) return;
    const frame = binary ? undefined : frameOf(String(data));
    if (!this.#budget.frame() || this.#atWork >= MOST_AT_WORK) this.close(CloseCode.tooMuch, 'too many frames');
    else if (!frame) this.close(CloseCode.wrong, 'no JSON text');
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
      if (!parsed.success) throw invalid(parsed.error);
      await this.#outbox.put({ type: 'reply', id: parsed.data.id, result: await this.#carryOut(parsed.data) });
    } catch (error) {
      const told = toCellaError(error, '-');
      if (told.code === 'INTERNAL') this.#options.log.error({ err: error }, 'unexpected');
      if (told.code === 'UNAUTHENTICATED') this.close(CloseCode.refused, 'the token is no longer good');
      else await this.#outbox.put({ type: 'error', ...(id === undefined ? {} : { id }), ...failureOf(told) });
    }
  }

  async #carryOut(frame: ClientFrame): Promise<unknown> {
    const { service, session, owner, recheck } = this.#options;
    if (frame.type === 'ping') return {};
    const { userId: by, credential } = await recheck('use');
    if (credential.kind !== 'daemon') service.access.rates.admit(credential.id);
    this.#options.audit(actions[frame.type]);
    switch (frame.type) {
      case 'execute': {
        if (service.stopping.aborted) throw new CellaError('DAEMON_STOPPING', 'The server is ending.');
        await service.access.quotas.countExecution(owner);
        await service.kernels.admit(await service.host.get(session.id));
        await service.room.admit(owner);
        const { type, id, code, ...options } = frame;
        const { execution, firstSeq, joined, outcome } = await session.start(code, { ...defined(options), by });
        outcome.catch(() => {}); // its events tell
        return { execution, firstSeq, joined };
      }
      case 'interrupt':
        return { interrupted: await session.interrupt() };
      case 'input':
        return void (await session.answerInput(frame.request, frame.text, { by }));
      case 'cancel_input':
        return void (await session.cancelInput(frame.request, { by, ...defined({ reason: frame.reason }) }));
      case 'approval':
        return void (await session.answerApproval(frame.approval, {
          by,
          allowed: frame.allowed,
          ...defined({ reason: frame.reason }),
        }));
    }
  }

  /** Only to those who read: pongs that nobody takes would pile up. */
  #pong(data: Buffer): void {
    this.#alive = true;
    if (!this.#budget.control()) this.close(CloseCode.tooMuch, 'too many frames');
    else if (this.#outbox.hasRoom) this.#socket.pong(data);
  }

  async #beat(): Promise<void> {
    // It has not read the last ping, or is no longer there.
    if (!this.#alive) this.close(CloseCode.slow, 'too slow');
    this.#alive = false;
    if (this.#over.signal.aborted) return;
    if (this.#outbox.hasRoom) this.#socket.ping();
    if (await refusalOf(this.#options.recheck)) this.close(CloseCode.refused, 'the token is no longer good');
  }
}

const actions = {
  execute: 'session.execute',
  interrupt: 'session.interrupt',
  input: 'session.input',
  cancel_input: 'session.input',
  approval: 'session.approval',
} as const;

const endings: Partial<Record<string, readonly [number, string]>> = {
  DAEMON_STOPPING: [CloseCode.stopping, 'the server is ending'],
  NOT_FOUND: [CloseCode.gone, 'the session was deleted'],
};

function frameOf(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined; // the client is told
  }
}

/** Without what is not there. */
function defined<T extends object>(options: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]: Exclude<T[K], undefined> };
}
