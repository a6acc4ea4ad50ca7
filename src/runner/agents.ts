/** Where a runner takes its agents from: only the one that is asked for is loaded. */

import type { AgentAdapter } from '../agents/contract.ts';

export interface AgentSource {
  readonly names: readonly string[];
  /** `AGENT_UNKNOWN` for any other name. */
  load(name: string): Promise<AgentAdapter>;
}
