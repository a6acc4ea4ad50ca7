/** From what a command line and its files say of a server to what the server takes. */

import type { SessionOptions } from '../session/session-options.ts';
import type { ServeSettings } from '../settings/server-config.ts';
import type { Storage } from '../storage/contract.ts';
import type { ServeOptions } from './serve.ts';

/** With what the composition adds. */
export interface ResolvedServeSettings extends Omit<ServeSettings, 'port' | 'quotas' | 'packages'> {
  readonly packages?: SessionOptions['packages'];
  readonly quotas?: ServeOptions['quotas'];
  /** Without it, the server is reached by its socket alone. */
  readonly port?: number | undefined;
  readonly version: string;
  readonly dataDir: string;
  readonly storage?: Storage | undefined;
  readonly mcp?: ServeOptions['mcp'];
  readonly masterKey?: ServeOptions['masterKey'];
  readonly session: Pick<SessionOptions, 'credentials'>;
}

export function serveOptions(wanted: ResolvedServeSettings): ServeOptions {
  const { maxKernels, idleMs, logLevel, logFile, rate, flushResults, retention, ...others } = wanted;
  const { python, packages, toolFolders, session, maxAgents, ...more } = others;
  const { agentIdleMs, agentStartMs, agentStopMs, agentTokenMs, agentTokenUses, ...rest } = more;
  return {
    ...rest,
    log: { level: logLevel, file: logFile },
    ...(rate === undefined ? {} : { rates: { perSecond: rate, burst: rate * 4 } }),
    agents: {
      runners: {
        ...(maxAgents === undefined ? {} : { maxRunners: maxAgents }),
        ...(agentIdleMs === undefined ? {} : { idleMs: agentIdleMs }),
        ...(agentStartMs === undefined ? {} : { startMs: agentStartMs }),
        ...(agentStopMs === undefined ? {} : { stopMs: agentStopMs }),
        ...(agentTokenMs === undefined ? {} : { tokenMs: agentTokenMs }),
        ...(agentTokenUses === undefined ? {} : { tokenUses: agentTokenUses }),
      },
    },
    hosting: {
      flushResults,
      retention,
      ...(maxKernels === undefined ? {} : { pool: { maxKernels } }),
      ...(idleMs === undefined ? {} : { idleTtlMs: idleMs }),
    },
    session: {
      ...session,
      ...(python === undefined ? {} : { python }),
      ...(packages === undefined ? {} : { packages }),
      ...(toolFolders === undefined ? {} : { toolFolders }),
    },
  };
}
