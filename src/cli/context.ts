/** What commands work with. `main.ts` gives the real ones, tests give their own. */

import type { ExecutorKind } from '../protocol/enums.ts';
import type { Checkpoint, KernelInfo } from '../protocol/kernel-state.ts';
import type { ArtifactFacts } from '../protocol/namespace-models.ts';
import type { StorageLocation } from '../protocol/storage-location.ts';
import type { NamespacesApi, SessionApi } from '../session/api.ts';
import type { PackageOptions } from '../settings/process-config.ts';
import type { ServerConfig } from '../settings/server-config.ts';
import type { SignalSource } from './command-lifecycle.ts';

import type { DoctorReport, DoctorSurroundings } from './commands/doctor.ts';
import type { ExplicitFlag } from './session-flags.ts';
import type { ApprovalPrompt } from './terminal/prompts.ts';
import type { Terminal } from './terminal/terminal.ts';

/** What a command works on: a data folder, Redis or a server. */
export interface StorageTarget extends StorageLocation {
  /** In place of all that: a server elsewhere. */
  readonly server?: { readonly url: string; readonly token?: string; readonly tokenFile?: string };
}

/** What a command line can say of tools, skills, artifacts and deps. */
export interface NamespaceTarget extends StorageTarget, ExecutorOptions {
  /** Their agent key, if a server has them. */
  readonly agentKey?: string;
  /** The flags that were typed: the rest comes from variables and defaults. */
  readonly typed?: readonly ExplicitFlag[];
  readonly python?: string;
  readonly packages?: PackageOptions;
  /** Folders with definitions of tools, beside those in storage. */
  readonly toolFolders?: string[];
}

/** `auto` is `subprocess`. */
export type ExecutorChoice = 'auto' | ExecutorKind;

/** Where code runs, as a command line can say it. */
export interface ExecutorOptions {
  readonly executor?: ExecutorChoice;
  /** For `container`: the image and the address of the engine. */
  readonly image?: string;
  readonly engine?: string;
}

export type NetworkChoice = 'none' | 'host' | { readonly allow: string[] };

/** What a command line can say of a session. */
export interface OpenOptions extends NamespaceTarget {
  readonly cwd?: string;
  readonly sandbox: 'on' | 'off' | { readonly network: NetworkChoice };
  readonly limits?: { readonly memoryMb: number };
  /** How many cells can be undone. */
  readonly undo?: number;
  /** Installs the configured packages first. */
  readonly syncDepsOnStart?: boolean;
  /** False locks the packages for the code. */
  readonly allowRuntimeDeps?: boolean;
  /** Called with the progress of packages that are installed before the first cell. */
  readonly onProgress?: (text: string) => void;
  /** Called before a tool runs that requires approval. */
  readonly approve?: ApprovalPrompt;
}

export interface CommandContext {
  readonly terminal: Terminal;
  readonly signals: SignalSource;
  openSession(options: OpenOptions): Promise<SessionApi>;
}

/** The durable checkpoints of one agent. Needs no kernel, and works while another process holds the agent. */
export interface CheckpointCatalog {
  /** Oldest first. */
  list(): Promise<readonly Checkpoint[]>;
  /** Those that cannot be read. */
  damaged(): Promise<readonly { readonly id: string; readonly reason: string }[]>;
  delete(id: string): Promise<boolean>;
}

export type CopyKind = 'tools' | 'skills' | 'artifacts' | 'deps';

export interface CopyOptions {
  readonly kinds: readonly CopyKind[];
  /** Only these. */
  readonly names?: readonly string[];
  /** Replaces what has the same name there. */
  readonly overwrite: boolean;
  readonly onProgress: (text: string) => void;
}

export interface CopiedItem {
  readonly kind: CopyKind;
  readonly name: string;
}

/** Copies between two storages. What was skipped is there already. */
export type CopyNamespaces = (
  from: StorageTarget,
  to: StorageTarget,
  options: CopyOptions,
) => Promise<{ readonly copied: readonly CopiedItem[]; readonly skipped: readonly CopiedItem[] }>;

/** What a storage holds beside agents, by name. */
export interface StorageContents {
  readonly tools: readonly string[];
  readonly skills: readonly string[];
  readonly artifacts: readonly { readonly name: string; readonly size: number }[];
  readonly deps: readonly string[];
}

/** What lies in a storage. */
export interface StorageAccess {
  listKernels(where: StorageTarget): Promise<readonly KernelInfo[]>;
  /** Tools, skills, artifacts and deps, without a kernel. */
  openNamespaces(options: NamespaceTarget): Promise<NamespacesApi & AsyncDisposable>;
  listStore(where: StorageTarget): Promise<StorageContents>;
  readonly copyNamespaces: CopyNamespaces;
  /** What a file most likely is, by its name. */
  factsByName(name: string): Promise<Pick<ArtifactFacts, 'type' | 'mediaType'>>;
  openCheckpoints(where: StorageTarget & { readonly agentKey: string }): Promise<CheckpointCatalog>;
}

export interface BenchFlags {
  readonly json: boolean;
  readonly markdown: boolean;
  readonly quick: boolean;
  /** One part instead of all. */
  readonly only?: string;
}

/** The commands that are about this machine and not about a session. */
export interface MachineCommands {
  detect(options: {
    readonly python: string | undefined;
    readonly place: StorageTarget;
    /** Of containers, in place of the usual ones. */
    readonly engine?: string | undefined;
    readonly image?: string | undefined;
  }): Promise<DoctorReport & DoctorSurroundings>;
  /** Returns the exit code. */
  bench(flags: BenchFlags, terminal: Terminal): Promise<number>;
}

/** What a command line can say of an MCP server. */
export interface McpRequest {
  readonly session: OpenOptions;
  /** Of code that names no limit. */
  readonly timeoutMs: number;
  /** Over HTTP instead of stdin and stdout; port 0 is any that is free. */
  readonly http?: { readonly port: number; readonly tokenFile?: string };
}

/** A server that has started. */
export interface StartedServer {
  readonly url: string;
  readonly dataDir: string;
  readonly adminTokenPath: string;
  readonly loginUrl: string;
}

export interface ServeHooks {
  readonly onReady: (facts: StartedServer) => Promise<void>;
  /** Resolves when the server is to end. */
  readonly ended: Promise<unknown>;
}

/** The process that has a data folder as its server, whether it answers or not. */
export interface ServerLockHolder {
  /** Identifies the process, even if a later one has the same pid. */
  readonly id: string;
  readonly pid: number;
  readonly host: string;
  /** Milliseconds since 1970. */
  readonly since: number;
}

/** Looks at a data folder again and again. */
export interface FolderWatch extends AsyncDisposable {
  /** Throws `STORAGE_FAILED` if a process has the folder open and it cannot be read which. */
  holder(): Promise<ServerLockHolder | undefined>;
  /** Whether it still has the folder. `let go`: the process lives, and is done with it. */
  holderState(holder: ServerLockHolder): 'has it' | 'let go' | 'ended';
}

export interface ServerCommands {
  serve(config: ServerConfig, hooks: ServeHooks): Promise<void>;
  /** Creates nothing. */
  watchFolder(dataDir: string): Promise<FolderWatch>;
  /** Serves until the client has gone, or `ended` resolves; what it has to say goes to stderr. */
  serveMcp(request: McpRequest, ended: Promise<unknown>): Promise<void>;
}
