/** ServerContext: what handlers use, and the limits of HTTP. */

import type { Logger } from 'pino';
import type { ServerConfig } from '../../settings/server-config.ts';
import type { Storage } from '../../storage/contract.ts';
import type { AccessControl } from '../access/access-control.ts';
import type { Peers } from '../cluster/peers.ts';
import type { SessionForwarder } from '../cluster/session-forwarder.ts';
import type { ModelService } from '../gateway/model-service.ts';
import type { McpEndpoints } from '../mcp-endpoints.ts';
import type { HttpMetrics } from '../metrics.ts';
import type { KernelQuota } from '../quotas/kernel-quota.ts';
import type { StorageQuota } from '../quotas/storage-quota.ts';
import type { Followers } from '../request-limits.ts';
import type { AgentService } from '../runners/agent-service.ts';
import type { ServerControl } from '../server-control.ts';
import type { SessionManager } from '../sessions/session-manager.ts';
import type { StorageProbe } from '../storage-probe.ts';
import type { AgentProfiles } from '../turns/agent-profiles.ts';
import type { RequestAudit } from './request-audit.ts';

export interface StreamLimits {
  /** How long a client may take to read what it was sent. */
  readonly patienceMs: number;
  /** How long a connection may be silent before a sign of life. */
  readonly heartbeatMs: number;
  /** How much may wait in the connection of one client. */
  readonly bufferBytes: number;
}

/** What the server is made of: built once, by `serve`, for all that handles requests. */
export interface ServerContext {
  readonly config: ServerConfig;
  readonly version: string;
  readonly log: Logger;
  /** Its shutdown. */
  readonly control: ServerControl;
  /** Aborted when the server takes no new work. */
  readonly stopping: AbortSignal;
  /** Aborted when the server closes: long-lived connections end with it. */
  readonly ending: AbortSignal;
  readonly limits: HttpLimits;
  readonly storage: Storage;
  readonly access: AccessControl;
  readonly models: ModelService;
  /** Coding agents and their runners. */
  readonly agents: AgentService;
  readonly host: SessionManager;
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
  readonly metrics: HttpMetrics;
  readonly followers: Followers;
  readonly requestAudit: RequestAudit;
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
