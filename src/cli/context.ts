/** What commands work with. `main.ts` gives the real ones, tests give their own. */

import type { AgentInfo, Checkpoint, SessionApi } from '../session/api.ts';
import type { doctor } from './doctor.ts';
import type { SignalSource } from './signals.ts';
import type { Terminal } from './terminal.ts';

/** Where agents and their things are kept. Workspaces and packages lie in the data folder in any case. */
export interface StoragePlace {
  readonly dataDir: string;
  /** In place of the files there. */
  readonly redis?: { readonly url: string; readonly prefix?: string };
}

/** What a command line can say of a session. */
export interface OpenOptions extends StoragePlace {
  readonly agentKey?: string;
  readonly cwd?: string;
  readonly python?: string;
  readonly sandbox: 'on' | 'off' | { readonly network: 'none' | 'host' };
  readonly limits?: { readonly memoryMb: number };
  /** How many cells can be undone. */
  readonly undo?: number;
}

export interface CommandContext {
  readonly terminal: Terminal;
  readonly signals: SignalSource;
  openSession(options: OpenOptions): Promise<SessionApi>;
}

/** The durable checkpoints of one agent, without a kernel and whoever holds the agent. */
export interface Shelf {
  /** Oldest first. */
  list(): Promise<readonly Checkpoint[]>;
  /** Those that cannot be read. */
  damaged(): Promise<readonly { readonly id: string; readonly reason: string }[]>;
  delete(id: string): Promise<boolean>;
}

/** What lies in a storage. */
export interface Stores {
  listAgents(where: StoragePlace): Promise<readonly AgentInfo[]>;
  openShelf(where: StoragePlace & { readonly agentKey: string }): Promise<Shelf>;
}

export interface BenchFlags {
  readonly json: boolean;
  readonly markdown: boolean;
  readonly quick: boolean;
}

/** The commands that are about this machine and not about a session. */
export interface Tools {
  detect(options: { readonly python: string | undefined }): Promise<Parameters<typeof doctor>[0]>;
  /** Gives the exit code. */
  bench(flags: BenchFlags, terminal: Terminal): Promise<number>;
}

/** What a command line can say of an MCP server. */
export interface McpRequest {
  readonly session: OpenOptions;
  readonly timeoutMs: number;
  readonly allowRuntimeDeps: boolean;
  readonly syncDepsOnStart: boolean;
  readonly toolFolders: readonly string[];
  /** Over HTTP instead of stdin and stdout; port 0 is any that is free. */
  readonly http?: { readonly port: number; readonly tokenFile?: string };
}

export interface Servers {
  /** Serves until the client has gone, or `ended` resolves; what it has to say goes to stderr. */
  serveMcp(request: McpRequest, ended: Promise<unknown>): Promise<void>;
}
