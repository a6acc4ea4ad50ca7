/**
 * The local backend: commands work in this process, with their own storages, unless a server is named or runs on the data
 * folder. Heavy parts load when used.
 */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SOCKET_FILE } from '../../protocol/enums.ts';
import type { Checkpoint, KernelInfo } from '../../protocol/kernel-state.ts';
import type { SessionApi, UserNamespacesApi } from '../../session/api.ts';
import type { OpenedNamespaces } from '../../session/session-namespaces.ts';
import { readCredential } from '../../settings/process-config.ts';
import type { Storage } from '../../storage/contract.ts';
import type { CopyOptions, CopyResult } from '../../storage/copy-namespaces.ts';
import {
  type Backend,
  type CheckpointCatalog,
  type CheckpointTarget,
  type NamespaceTarget,
  type OpenOptions,
  readContents,
  type StorageContents,
  type StorageTarget,
} from './backend.ts';
import type { RemoteBackend } from './remote-backend.ts';

/** The credentials of the user who runs the command. Only the tool that mentions one gets it. */
export const ownCredentials = async (name: string): Promise<string | undefined> => readCredential(name);

export class LocalBackend implements Backend {
  readonly #keepKernels: boolean;
  readonly #redis = new Map<string, Promise<Storage>>();
  /** Closed before the Redis storages. */
  readonly #endFirst = new Set<() => Promise<void>>();

  /** `keepKernels` is for a program that runs several commands: keeps the template processes until it ends. */
  constructor({ keepKernels = false } = {}) {
    this.#keepKernels = keepKernels;
  }

  async openSession({ redis, server: _, typed: __, ...options }: OpenOptions): Promise<SessionApi> {
    const [{ Session }] = await Promise.all([import('../../session/session.ts'), this.endKernelsAtClose()]);
    const storage = await this.redis(redis);
    return await Session.open({ credentials: ownCredentials, ...options, ...(storage ? { storage } : {}) });
  }

  async listKernels(target: StorageTarget): Promise<readonly KernelInfo[]> {
    const { listKernels } = await import('../../session/kernel-list.ts');
    await this.#endFilesAtClose();
    return await listKernels({ dataDir: target.dataDir, storage: await this.redis(target.redis) });
  }

  async openNamespaces({ redis, ...options }: NamespaceTarget): Promise<OpenedNamespaces> {
    const { openNamespaces } = await import('../../session/session-namespaces.ts');
    await this.#endFilesAtClose();
    const { dataDir, python, packages, toolFolders, executor, image, engine } = options;
    const location = { dataDir, storage: await this.redis(redis), executor, image, engine };
    return await openNamespaces({ ...location, python, packages, toolFolders });
  }

  async listStorage(target: StorageTarget): Promise<StorageContents> {
    return await readContents(await this.#open(target));
  }

  async openCheckpoints({ agentKey, ...target }: CheckpointTarget): Promise<CheckpointCatalog> {
    const { toCheckpoint } = await import('../../kernel-manager/kernel-checkpoints.ts');
    const { checkpoints } = await this.#open(target);
    return {
      list: async () => {
        const all: Checkpoint[] = [];
        for (const { id } of await checkpoints.list(agentKey)) {
          const manifest = await checkpoints.get(agentKey, id);
          if (manifest) all.push(toCheckpoint(manifest));
        }
        return all;
      },
      damaged: () => checkpoints.damaged(agentKey),
      delete: (id) => checkpoints.delete(agentKey, id),
    };
  }

  async copyNamespaces(from: StorageTarget, to: StorageTarget, options: CopyOptions): Promise<CopyResult> {
    const { copyNamespaces } = await import('../../storage/copy-namespaces.ts');
    return await copyNamespaces(await this.#open(from), await this.#open(to), options);
  }

  /** Undefined if sessions find the storage themselves, in the files of their data folder. */
  async redis(location: StorageTarget['redis']): Promise<Storage | undefined> {
    if (!location) return undefined;
    const { openRedis } = await import('../../storage/open-storage.ts');
    const key = JSON.stringify([location.url, location.prefix]);
    const opening = this.#redis.get(key) ?? openRedis(location);
    this.#redis.set(key, opening);
    // An unreachable Redis may come back.
    opening.catch(() => this.#redis.delete(key));
    return await opening;
  }

  /** Call before starting kernels. */
  async endKernelsAtClose(): Promise<void> {
    const { shutdown } = await import('../../session/shared-resources.ts');
    if (!this.#keepKernels) this.#endFirst.add(shutdown);
  }

  async close(): Promise<void> {
    for (const end of this.#endFirst) await end();
    // Failures to open were reported to the caller.
    for (const opening of this.#redis.values()) await (await opening.catch(() => undefined))?.close();
  }

  async #open({ dataDir, redis }: StorageTarget): Promise<Storage> {
    const [{ acquireStorage }, { dataFolder }] = await Promise.all([
      import('../../session/shared-resources.ts'),
      import('../../session/data-folders.ts'),
    ]);
    await this.#endFilesAtClose();
    return await acquireStorage(await this.redis(redis), dataFolder(dataDir)).resource;
  }

  async #endFilesAtClose(): Promise<void> {
    const { closeStorages } = await import('../../session/shared-resources.ts');
    this.#endFirst.add(closeStorages);
  }
}

/** Works at a server if one is named or runs on the data folder; otherwise in this process. */
export class BackendSelector implements Backend {
  readonly local: LocalBackend;
  readonly #servers = new Map<string, Promise<RemoteBackend | undefined>>();

  constructor(local: LocalBackend) {
    this.local = local;
  }

  async openSession(options: OpenOptions): Promise<SessionApi> {
    return await (await this.#select(options)).openSession(options);
  }

  async listKernels(target: StorageTarget): Promise<readonly KernelInfo[]> {
    return await (await this.#select(target)).listKernels(target);
  }

  async openNamespaces(target: NamespaceTarget): Promise<UserNamespacesApi & AsyncDisposable> {
    return await (await this.#select(target)).openNamespaces(target);
  }

  async listStorage(target: StorageTarget): Promise<StorageContents> {
    return await (await this.#selectForReading(target)).listStorage(target);
  }

  async openCheckpoints(target: CheckpointTarget): Promise<CheckpointCatalog> {
    return await (await this.#selectForReading(target)).openCheckpoints(target);
  }

  /** Undefined if the command works without a server. */
  async server(target: StorageTarget): Promise<RemoteBackend | undefined> {
    // Most commands need none of this.
    if (!target.server && !existsSync(join(target.dataDir, SOCKET_FILE))) return undefined;
    const key = JSON.stringify([target.server?.url, target.dataDir, target.redis]);
    const known = this.#servers.get(key) ?? connect(target);
    this.#servers.set(key, known);
    return await known;
  }

  async close(): Promise<void> {
    // The caller has already seen why a server could not be reached.
    for (const server of this.#servers.values()) await (await server.catch(() => undefined))?.close();
    await this.local.close();
  }

  async #select(target: StorageTarget): Promise<Backend> {
    return (await this.server(target)) ?? this.local;
  }

  /** Reads storage shared with the server on the data folder directly. */
  async #selectForReading(target: StorageTarget): Promise<Backend> {
    const server = await this.server(target);
    return server && !server.sameStorage ? server : this.local;
  }
}

async function connect(target: StorageTarget): Promise<RemoteBackend | undefined> {
  const { findServer } = await import('./find-server.ts');
  const connection = await findServer(target);
  return connection && new (await import('./remote-backend.ts')).RemoteBackend(connection);
}
