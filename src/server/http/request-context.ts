/** One request on its way through the server: its connection, its client, and how it may become a WebSocket. */

import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Context } from 'hono';
import type { Logger } from 'pino';
import type { WebSocket } from 'ws';
import type { Principal } from '../access/authorization.ts';
import type { ForwardMark } from '../cluster/forward-mark.ts';
import type { ByteReservation } from '../request-limits.ts';

/** `local`: the Unix socket in the data folder, which only the user that runs the server can open. */
export type ListenerKind = 'network' | 'local';

/** A request to become a WebSocket. A handler that accepts it sets `accept`. */
export interface Upgrade {
  accept: ((socket: WebSocket, room: () => ByteReservation) => void) | undefined;
  /** Reserves memory for its messages, once the user is known. */
  room: (() => ByteReservation) | undefined;
}

export interface RequestBindings {
  readonly incoming: IncomingMessage;
  /** Its connection, also after an unread body has detached from it. */
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
  /** Set if another server forwarded it. */
  forwardMark: ForwardMark | undefined;
  /** Whether another server has answered it. */
  forwarded: boolean | undefined;
}

export interface RequestEnv {
  Bindings: RequestBindings;
  Variables: RequestVariables;
}

export type RequestContext = Context<RequestEnv>;

/** The address of the client, for logs and the audit. `local` for the Unix socket. */
export function clientAddress(c: RequestContext): string {
  const { socket, listener: door } = c.env;
  return c.get('forwardMark')?.client ?? (door === 'local' ? 'local' : (socket.remoteAddress ?? 'unknown'));
}

/** With the query. */
export function pathOf(c: RequestContext): string {
  const { pathname, search } = new URL(c.req.url);
  return `${pathname}${search}`;
}

export function isTls({ socket }: RequestBindings): boolean {
  return 'encrypted' in socket && socket.encrypted === true;
}

/** Destroys the connection of a response that fails half way, so that the client does not take it for complete. */
export function abortConnection({ socket }: RequestBindings): void {
  socket.destroy();
}
