/** What an MCP server works with: sessions by agent key and the things in storage, wherever they are. */

import type { NamespacesApi, SessionApi } from '../session/api.ts';
import type { Desk } from './desk.ts';
import type { Log } from './failure.ts';
import type { Suspended } from './suspended.ts';

export interface Shop {
  readonly options: {
    /** Of code that names no limit. */
    readonly timeoutMs: number;
    readonly log: Log;
  };
  readonly suspended: Suspended;
  /** Whether packages can be changed. */
  readonly open: boolean;
  /** Whether the code runs in WebAssembly, without isolation. */
  readonly inProcess: boolean;
  desk(agentKey?: string): Desk;
  session(agentKey?: string, signal?: AbortSignal): Promise<SessionApi>;
  /** From here on the kernel may sleep when it is idle for long. */
  release(agentKey?: string): void;
  /** Tools, skills, artifacts and deps. */
  namespaces(): Promise<NamespacesApi>;
}
