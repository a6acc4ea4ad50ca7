/** What the settings of a server amount to: one shape for all of them. */

import type { keyModes } from '../protocol/enums.ts';

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;

export type LogLevel = (typeof logLevels)[number];

/** What members may ask for beside a sandbox of their own; administrators may in any case. */
export const privileges = ['in-process', 'unsandboxed', 'network', 'folders'] as const;

export type Privilege = (typeof privileges)[number];

/** Where packages come from; PyPI where nothing is said. */
export interface PackageOptions {
  readonly index?: string;
  readonly extraIndexes?: string[];
  /** Folders with wheels in them. */
  readonly wheelFolders?: string[];
  readonly noIndex?: boolean;
}

/** `with-network`: in sessions whose agent has the network of the machine itself. */
export const providerToolModes = ['with-network', 'always'] as const;

/** What a command line and its files say of the gateway, as it was written. */
export interface GatewaySettings {
  readonly keys?: (typeof keyModes)[number];
  readonly providers?: readonly string[];
  readonly models?: readonly string[];
  readonly prices?: readonly string[];
  /** As `provider=name`. */
  readonly fields?: readonly string[];
  readonly providerTools?: (typeof providerToolModes)[number];
  readonly sessionUsd?: number;
  readonly sessionTokens?: number;
}

/** What a command line and its files say of a server. What is left out has a default there. */
export interface ServeSettings {
  readonly address: string;
  /** 0 is any that is free. */
  readonly port: number;
  readonly tls?: { readonly certPath: string; readonly keyPath: string };
  readonly insecureHttp: boolean;
  /** Names that the server goes by beside its address. */
  readonly names: readonly string[];
  /** Where other servers on the same Redis reach it. */
  readonly advertise?: string;
  readonly membersMay: readonly Privilege[];
  readonly maxKernels?: number;
  readonly idleMs?: number;
  /** Executors of agents that may live at a time. */
  readonly maxAgents?: number;
  /** How long one is kept for the next prompt, may take to be there, and has to end a turn that is stopped. */
  readonly agentIdleMs?: number;
  readonly agentStartMs?: number;
  readonly agentStopMs?: number;
  /** How long the session token of a turn is good, and for how many calls. */
  readonly agentTokenMs?: number;
  readonly agentTokenUses?: number;
  /** How long running code has when the server ends. */
  readonly graceMs: number;
  /** Requests a second of one token. */
  readonly rate?: number;
  /** Whether results are on the disk before they are told. */
  readonly flushResults: boolean;
  /** How much of each session's events stays; 0 is all. */
  readonly retention: { readonly maxAgeMs?: number; readonly maxBytes?: number; readonly maxFileBytes?: number };
  /** For users that have none of their own. */
  readonly quotas: {
    readonly sessions?: number;
    readonly liveKernels?: number;
    readonly memoryMb?: number;
    readonly executionsPerMinute?: number;
    readonly storageBytes?: number;
    readonly modelUsdPerDay?: number;
    readonly modelTokensPerDay?: number;
  };
  /** How agents get to their models. */
  readonly gateway: GatewaySettings;
  readonly logLevel: LogLevel;
  readonly logFile?: string;
  readonly python?: string;
  readonly packages?: PackageOptions;
  readonly toolFolders?: string[];
}
