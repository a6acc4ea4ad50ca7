/** What the HTTP server is made from, and its limits. */

import type { Privilege } from '../../settings/settings-table.ts';
import type { AccessControl } from '../access/access-control.ts';
import type { Peers } from '../cluster/peers.ts';
import type { ModelService } from '../gateway/model-service.ts';
import type { SessionManager } from '../sessions/session-types.ts';
import type { AgentProfiles } from '../turns/agent-profiles.ts';
import type { AgentNumbers } from './agent-numbers.ts';
import type { KernelQuota } from './kernel-quota.ts';
import type { Logger } from './logs.ts';
import type { McpEndpoints } from './mcp-endpoints.ts';
import type { ServerLife } from './routes/server.ts';
import type { Room, Service, StreamLimits } from './service.ts';

export interface HttpOptions {
  readonly access: AccessControl;
  readonly models: ModelService;
  readonly host: SessionManager;
  readonly room: Room;
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
  readonly codingAgents: Service['codingAgents'];
  readonly life: ServerLife;
  readonly probe: Service['probe'];
  /** What is known of coding agents now. */
  readonly agentNumbers: () => AgentNumbers;
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
