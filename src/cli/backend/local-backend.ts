/** The local backend: commands work in this process, with their own storages. Heavy parts load when used. */

import type { Checkpoint, KernelInfo } from '../../protocol/kernel-state.ts';
import type { SessionApi } from '../../session/api.ts';
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
