/** One request on its way through the server: its connection, its client, and how it may become a WebSocket. */

import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Context } from 'hono';
import type { Logger } from 'pino';
import type { WebSocket } from 'ws';
import type { Principal } from '../access/authorization.ts';
import type { ForwardMark } from '../cluster/forward-mark.ts';
import type { ByteReservation } from '../request-limits.ts';

/** `local`: the Unix socket in the data folder, which only the user that runs the daemon can open. */
export type ListenerKind = 'network' | 'local';

/** A request to go on as a WebSocket. A handler that agrees says what is to be done with it. */
export interface Upgrade {
  accept: ((socket: WebSocket, room: () => ByteReservation) => void) | undefined;
  /** For what is held of its messages, once it is known whose they are. */
  room: (() => ByteReservation) | undefined;
}

export interface RequestBindings {
  readonly incoming: IncomingMessage;
  /** Its connection, also after a body that was not read to its end has let go of it. */
  readonly socket: Socket;
  readonly listener: ListenerKind;
  readonly upgrade?: Upgrade;
}

export interface RequestVariables {
  requestId: string;
  log: Logger;
  /** The path as its definition has it, for logs and metrics. */
  route: string | undefined;
  /** Who sent it, once that is known. */
  principal: Principal | undefined;
  /** Which server has passed it on, where one has. */
  hop: ForwardMark | undefined;
  /** Whether another server has answered it. */
  forwarded: boolean | undefined;
}

export interface RequestEnv {
  Bindings: RequestBindings;
  Variables: RequestVariables;
}

export type RequestContext = Context<RequestEnv>;

/** Where a request comes from, for logs and the audit. Behind the Unix socket there is no address. */
export function clientAddress(c: RequestContext): string {
  const { socket, listener: door } = c.env;
  return c.get('hop')?.client ?? (door === 'local' ? 'local' : (socket.remoteAddress ?? 'unknown'));
}

/** With the query. */
export function pathOf(c: RequestContext): string {
  const { pathname, search } = new URL(c.req.url);
  return `${pathname}${search}`;
}

export function isTls({ socket }: RequestBindings): boolean {
  return 'encrypted' in socket && socket.encrypted === true;
}

/** Ends the connection of an answer that cannot be ended well, so that nobody takes what there is for all of it. */
export function abortConnection({ socket }: RequestBindings): void {
  socket.destroy();
}
