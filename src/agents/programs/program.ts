/** What `cella agents install` brings for an agent. */

import type { AgentName } from '../../protocol/turn.ts';

export interface AgentProgram {
  readonly agent: AgentName;
  readonly title: string;
  /** On the npm registry. */
  readonly packageName: string;
  /** The one that the adapter is tested with. */
  readonly version: string;
  /** What it takes on the disk, for people who wait for it. */
  readonly megabytes: number;
  /** What must be there, under node_modules: of each list one. */
  readonly parts: readonly (readonly string[])[];
}
