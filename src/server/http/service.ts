/** What the routes work with. */

import type { Quotas } from '../../protocol/access-models.ts';
import type { CodingAgent } from '../../protocol/api/agent-routes.ts';
import type { Privilege } from '../../settings/settings-table.ts';
import type { AccessControl } from '../access/access-control.ts';
import type { SessionForwarder } from '../cluster/session-forwarder.ts';
import type { ModelService } from '../gateway/model-service.ts';
import type { SessionManager } from '../sessions/session-types.ts';
import type { StorageProbe } from '../storage-probe.ts';
import type { AgentProfiles } from '../turns/agent-profiles.ts';
import type { Followers } from './followers.ts';
import type { KernelQuota } from './kernel-quota.ts';
import type { HttpMetrics } from './metrics.ts';
import type { Routes } from './router.ts';

export interface StreamLimits {
  /** How long a client may take to read what it was sent. */
  readonly patienceMs: number;
  /** How long a connection may be silent before a sign of life. */
  readonly heartbeatMs: number;
  /** How much may wait in the connection of one client. */
  readonly bufferBytes: number;
}

/** Whether a user may store more: QUOTA_EXCEEDED where it may not. */
export interface Room {
  /** `limits`: those of the user, where they are known already. */
  admit(userId: string, bytes?: number, limits?: Quotas): Promise<void>;
  /** Of something that was admitted before its size was known. */
  took(userId: string, bytes: number): void;
}

export interface Service {
  readonly routes: Routes;
  readonly access: AccessControl;
  readonly models: ModelService;
  readonly host: SessionManager;
  /** Where other servers share the storage. */
  readonly forwarder: SessionForwarder | undefined;
  readonly metrics: HttpMetrics;
  readonly followers: Followers;
  readonly kernels: KernelQuota;
  /** What users have set up for agents. */
  readonly profiles: AgentProfiles;
  /** Those that there are, and whether they are installed here. */
  readonly codingAgents: () => Promise<readonly CodingAgent[]>;
  readonly room: Room;
  readonly streams: StreamLimits;
  readonly membersMay: readonly Privilege[];
  /** Aborted when the server takes no new work, and has told so. */
  readonly stopping: AbortSignal;
  /** Aborted when the server ends: what goes on for long ends with it. */
  readonly ending: AbortSignal;
  readonly version: string;
  /** Whether what is written arrives. */
  readonly probe: StorageProbe;
}
