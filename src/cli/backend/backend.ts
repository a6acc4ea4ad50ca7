/** Where a command works: the `Backend` port, and the options of a storage and a session on the command line. */

import type { ExecutorKind } from '../../protocol/enums.ts';
import type { Checkpoint, KernelInfo } from '../../protocol/kernel-state.ts';
import type { NetworkPolicy } from '../../protocol/sandbox-policy.ts';
import type { StorageLocation } from '../../protocol/server-info.ts';
import type { SessionApi, UserNamespacesApi } from '../../session/api.ts';
import type { PackageOptions } from '../../settings/process-config.ts';
import type { ExplicitFlag } from '../session-flags.ts';
import type { ApprovalPrompt } from '../terminal/prompts.ts';

/** `LocalBackend` works in this process, `RemoteBackend` at a server; `BackendSelector` chooses between them. */
export interface Backend {
  openSession(options: OpenOptions): Promise<SessionApi>;
  listKernels(target: StorageTarget): Promise<readonly KernelInfo[]>;
  /** Tools, skills, artifacts and deps, without a kernel. */
  openNamespaces(target: NamespaceTarget): Promise<UserNamespacesApi & AsyncDisposable>;
  listStorage(target: StorageTarget): Promise<StorageContents>;
  openCheckpoints(target: CheckpointTarget): Promise<CheckpointCatalog>;
}

/** What a command works on: a data folder, Redis or a server. */
export interface StorageTarget extends StorageLocation {
  /** A remote server, in place of all other options. */
  readonly server?: { readonly url: string; readonly token?: string; readonly tokenFile?: string };
}

export interface CheckpointTarget extends StorageTarget {
  readonly agentKey: string;
}

/** The options for tools, skills, artifacts and deps on the command line. */
export interface NamespaceTarget extends StorageTarget, ExecutorOptions {
  /** Agent key, if the data belongs to a server. */
  readonly agentKey?: string;
  /** The flags that were typed. Other values come from variables and defaults. */
  readonly typed?: readonly ExplicitFlag[];
  readonly python?: string;
  readonly packages?: PackageOptions;
  /** Folders with tool definitions, in addition to those in storage. */
  readonly toolFolders?: string[];
}

/** `auto` is `subprocess`. */
export type ExecutorChoice = 'auto' | ExecutorKind;

/** The options for where code runs on the command line. */
export interface ExecutorOptions {
  readonly executor?: ExecutorChoice;
  /** For `container`: the image and the address of the engine. */
  readonly image?: string;
  readonly engine?: string;
}

/** The options of a session on the command line. */
export interface OpenOptions extends NamespaceTarget {
  readonly cwd?: string;
  readonly sandbox: 'on' | 'off' | { readonly network: NetworkPolicy };
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

/** The durable checkpoints of one agent key. Needs no kernel, and works while another process holds the key. */
export interface CheckpointCatalog {
  /** Oldest first. */
  list(): Promise<readonly Checkpoint[]>;
  /** Checkpoints that cannot be read. */
  damaged(): Promise<readonly { readonly id: string; readonly reason: string }[]>;
  delete(id: string): Promise<boolean>;
}

/** The contents of a storage besides kernels, by name. */
export interface StorageContents {
  readonly tools: readonly string[];
  readonly skills: readonly string[];
  readonly artifacts: readonly { readonly name: string; readonly size: number }[];
  readonly deps: readonly string[];
}

type Named = readonly { readonly name: string }[];

/** The names of everything in a storage or a server's storage. */
export async function readContents(from: {
  readonly tools: { list(): Promise<Named> };
  readonly skills: { list(): Promise<Named> };
  readonly artifacts: { list(): Promise<readonly { readonly name: string; readonly size: number }[]> };
  readonly deps: { list(): Promise<readonly string[]> };
}): Promise<StorageContents> {
  const nameOf = ({ name }: { readonly name: string }) => name;
  return {
    tools: (await from.tools.list()).map(nameOf),
    skills: (await from.skills.list()).map(nameOf),
    artifacts: (await from.artifacts.list()).map(({ name, size }) => ({ name, size })),
    deps: await from.deps.list(),
  };
}
