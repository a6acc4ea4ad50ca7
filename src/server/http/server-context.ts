/** ServerContext (what handlers use), HTTP limits, and the variables of a request. */

import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Context } from 'hono';
import type { Logger } from 'pino';
import type { WebSocket } from 'ws';
import type { ServerConfig } from '../../settings/server-config.ts';
import type { Storage } from '../../storage/contract.ts';
import type { AccessControl } from '../access/access-control.ts';
import type { Principal } from '../access/authorization.ts';
import type { ForwardMark } from '../cluster/forward-signer.ts';
import type { Peers } from '../cluster/peers.ts';
import type { SessionForwarder } from '../cluster/session-forwarder.ts';
import type { ModelService } from '../gateway/model-service.ts';
import type { McpEndpoints } from '../mcp-endpoints.ts';
import type { ServerMetrics } from '../metrics.ts';
import type { StorageQuota } from '../quotas/storage-quota.ts';
import type { KernelQuota } from '../quotas/user-quotas.ts';
import type { ByteReservation, Followers } from '../request-limits.ts';
import type { AgentService } from '../runners/agent-service.ts';
import type { ServerControl } from '../server-control.ts';
import type { SessionManager } from '../sessions/session-manager.ts';
import type { StorageProbe } from '../storage-probe.ts';
import type { AgentProfiles } from '../turns/agent-profiles.ts';
import type { UnreadData, UnreadLimit } from '../unread-limit.ts';
import type { RequestAudit } from './request-audit.ts';

export interface StreamLimits {
  /** How long a client may take to read sent data. */
  readonly slowClientTimeoutMs: number;
  /** How long a connection may be silent before a heartbeat. */
  readonly heartbeatMs: number;
  /** Limit on buffered bytes per connection. */
  readonly bufferBytes: number;
}

/** The parts of the server. `serve` creates them once, for everything that handles requests. */
export interface ServerContext {
  readonly config: ServerConfig;
  readonly version: string;
  readonly log: Logger;
  /** Controls the shutdown. */
  readonly control: ServerControl;
  /** Aborted when the server takes no new work. */
  readonly draining: AbortSignal;
  /** Aborted when the server closes: long-lived connections end with it. */
  readonly closing: AbortSignal;
  readonly limits: HttpLimits;
  readonly storage: Storage;
  readonly access: AccessControl;
  readonly models: ModelService;
  /** Coding agents and their runners. */
  readonly agents: AgentService;
  readonly sessions: SessionManager;
  /** Sessions as MCP servers. */
  readonly endpoints: McpEndpoints;
  /** The other servers on the same storage, and what forwards to them; undefined if the storage is not shared. */
  readonly peers: Peers | undefined;
  readonly forwarder: SessionForwarder | undefined;
  readonly kernels: KernelQuota;
  readonly storageQuota: StorageQuota;
  /** Agent profiles of users. */
  readonly profiles: AgentProfiles;
  /** Whether writes to storage succeed. */
  readonly probe: StorageProbe;
  readonly metrics: ServerMetrics;
  readonly followers: Followers;
  /** What clients have not read. */
  readonly unread: UnreadLimit;
  readonly requestAudit: RequestAudit;
}

export interface HttpLimits extends StreamLimits {
  /** Per JSON body. */
  readonly bodyBytes: number;
  /** Per frame from a client. */
  readonly frameBytes: number;
  /** Concurrent connections per token that follow sessions. */
  readonly followers: number;
  /** Limit per user on the bytes of all that its clients have not read. */
  readonly unreadBytes: number;
}

export const defaultLimits: HttpLimits = {
  bodyBytes: 8 * 1024 * 1024,
  frameBytes: 8 * 1024 * 1024,
  followers: 1000,
  slowClientTimeoutMs: 30_000,
  heartbeatMs: 20_000,
  bufferBytes: 1024 * 1024,
  unreadBytes: 128 * 1024 * 1024,
};

/** `local`: the Unix socket in the data folder, which only the user that runs the server can open. */
export type ListenerKind = 'network' | 'local';

/** Counts and logs that a WebSocket was closed because its client sends too much. */
export type ReportRefusal = (reason: string) => void;

/** Counts what a client has not read. `cut` closes its connection if others of its user need the memory. */
export type CountUnread = (cut?: () => void) => UnreadData;

/** What a WebSocket needs, once its user is known. */
export interface UpgradeOptions {
  /** Reserves memory for its messages. */
  readonly room: () => ByteReservation;
  readonly unread: CountUnread;
  readonly onRefused: ReportRefusal;
}

/** A WebSocket upgrade. A handler that accepts it sets `accept`. */
export interface Upgrade {
  accept: ((socket: WebSocket, options: UpgradeOptions) => void) | undefined;
  options: UpgradeOptions | undefined;
  /** Its slot in the limit on followers. Disposed of when the connection ends, even if it never becomes a WebSocket. */
  place: Disposable | undefined;
}

export interface RequestBindings {
  readonly incoming: IncomingMessage;
  /** The connection, even after an unread body has detached from it. */
  readonly socket: Socket;
  readonly listener: ListenerKind;
  readonly upgrade?: Upgrade;
  /** Set after authentication. */
  userId?: string;
}

interface RequestVariables {
  requestId: string;
  log: Logger;
  /** The route's path pattern, for logs and metrics. */
  route: string | undefined;
  /** Set after authentication. */
  principal: Principal | undefined;
  /** Set if another server forwarded it. */
  forwardMark: ForwardMark | undefined;
  /** Whether another server answered the request. */
  forwarded: boolean | undefined;
}

export interface RequestEnv {
  Bindings: RequestBindings;
  Variables: RequestVariables;
}

export type RequestContext = Context<RequestEnv>;

/** The client's address, for logs and the audit log. `local` for the Unix socket. */
export function clientAddress(c: RequestContext): string {
  const { socket, listener } = c.env;
  return c.get('forwardMark')?.client ?? (listener === 'local' ? 'local' : (socket.remoteAddress ?? 'unknown'));
}

/** With the query. */
export function pathOf(c: RequestContext): string {
  const { pathname, search } = new URL(c.req.url);
  return `${pathname}${search}`;
}

export function isTls({ socket }: RequestBindings): boolean {
  return 'encrypted' in socket && socket.encrypted === true;
}

/** Destroys the connection of a response that fails midway, so that the client does not take it for complete. */
export function abortConnection({ socket }: RequestBindings): void {
  socket.destroy();
}
