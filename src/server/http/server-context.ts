/** What the HTTP server is made from, what its handlers use, and its limits. */

import type { CellaError } from '../../protocol/errors.ts';
import type { ServerStatus } from '../../protocol/server-info.ts';
import type { CodingAgent } from '../../protocol/turn.ts';
import type { Privilege } from '../../settings/server-config.ts';
import type { AccessControl } from '../access/access-control.ts';
import type { Peers } from '../cluster/peers.ts';
import type { SessionForwarder } from '../cluster/session-forwarder.ts';
import type { ModelService } from '../gateway/model-service.ts';
import type { Logger } from '../logger.ts';
import type { McpEndpoints } from '../mcp-endpoints.ts';
import type { AgentMetrics, HttpMetrics } from '../metrics.ts';
import type { KernelQuota } from '../quotas/kernel-quota.ts';
import type { StorageQuota } from '../quotas/storage-quota.ts';
import type { ByteReservation, Followers } from '../request-limits.ts';
import type { SessionManager } from '../sessions/session-manager.ts';
import type { StorageProbe } from '../storage-probe.ts';
import type { AgentProfiles } from '../turns/agent-profiles.ts';
import type { RequestAudit } from './request-audit.ts';
import type { RequestContext } from './request-context.ts';

export interface StreamLimits {
  /** How long a client may take to read what it was sent. */
  readonly patienceMs: number;
  /** How long a connection may be silent before a sign of life. */
  readonly heartbeatMs: number;
  /** How much may wait in the connection of one client. */
  readonly bufferBytes: number;
}

/** The running server: its status and its shutdown. */
export interface ServerControl {
  facts(): Pick<ServerStatus, 'pid' | 'startedAt' | 'url' | 'dataDir' | 'storage' | 'graceMs'> & {
    readonly maxKernels: number;
  };
  /** Starts the shutdown, or shortens its grace. Returns at once. */
  stop(graceMs?: number): void;
  /** Resolves when it has saved everything, or knows what it could not save. */
  readonly saved: Promise<CellaError | undefined>;
}

export interface ServerContext {
  readonly access: AccessControl;
  readonly models: ModelService;
  readonly host: SessionManager;
  /** Undefined if no other servers share the storage. */
  readonly forwarder: SessionForwarder | undefined;
  readonly metrics: HttpMetrics;
  readonly followers: Followers;
  readonly kernels: KernelQuota;
  /** Agent profiles of users. */
  readonly profiles: AgentProfiles;
  /** Known coding agents, and whether they are installed here. */
  readonly codingAgents: () => Promise<readonly CodingAgent[]>;
  readonly storageQuota: StorageQuota;
  readonly streams: StreamLimits;
  readonly membersMay: readonly Privilege[];
  /** Aborted when the server takes no new work. */
  readonly stopping: AbortSignal;
  /** Aborted when the server closes: long-lived connections end with it. */
  readonly ending: AbortSignal;
  readonly version: string;
  /** Whether writes to storage succeed. */
  readonly probe: StorageProbe;
  readonly control: ServerControl;
  /** Undefined if sessions are no MCP servers here. */
  readonly endpoints: McpEndpoints | undefined;
  readonly requestAudit: RequestAudit;
  /** Counts what the body of this request holds in memory. */
  readonly reserveBytes: (context: RequestContext) => ByteReservation;
}

export interface HttpServerOptions {
  readonly access: AccessControl;
  readonly models: ModelService;
  readonly host: SessionManager;
  readonly storageQuota: StorageQuota;
  readonly log: Logger;
  readonly version: string;
  readonly address: string;
  /** 0 for any that is free. Without it, there is the socket alone. */
  readonly port?: number | undefined;
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer } | undefined;
  /** Names that it goes by beside its address. */
  readonly names?: readonly string[] | undefined;
  /** Where its Unix socket is to be. */
  readonly socketPath?: string | undefined;
  readonly membersMay?: readonly Privilege[] | undefined;
  readonly limits?: Partial<HttpLimits> | undefined;
  /** Without it, sessions are no MCP servers. */
  readonly endpoints?: McpEndpoints | undefined;
  readonly kernels: KernelQuota;
  readonly profiles: AgentProfiles;
  readonly codingAgents: ServerContext['codingAgents'];
  readonly control: ServerControl;
  readonly probe: ServerContext['probe'];
  /** Current metrics of coding agents. */
  readonly agentMetrics: () => AgentMetrics;
  /** The other servers of the same storage. */
  readonly peers?: Peers | undefined;
}

export interface HttpLimits extends StreamLimits {
  /** Of a body that is JSON. */
  readonly bodyBytes: number;
  /** Of a frame that a client sends. */
  readonly frameBytes: number;
}

export const defaultLimits: HttpLimits = {
  bodyBytes: 8 * 1024 * 1024,
  frameBytes: 8 * 1024 * 1024,
  patienceMs: 30_000,
  heartbeatMs: 20_000,
  bufferBytes: 1024 * 1024,
};
