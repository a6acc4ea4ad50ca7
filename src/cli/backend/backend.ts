/** Where the CLI does its work: at a server, if one is named or runs on the data folder, else in this process with its own storages. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SOCKET_FILE } from '../../protocol/enums.ts';
import type { KernelInfo } from '../../protocol/kernel-state.ts';
import type { OpenedNamespaces } from '../../session/session-namespaces.ts';
import type { Storage } from '../../storage/contract.ts';
import type {
  CheckpointCatalog,
  CommandContext,
  CopiedItem,
  CopyOptions,
  FolderWatch,
  NamespaceTarget,
  OpenOptions,
  StorageAccess,
  StorageContents,
  StorageTarget,
} from '../context.ts';
import type { Reach, ServerConnection } from './find-server.ts';

type LocalWork = Pick<CommandContext, 'openSession'> &
  Pick<StorageAccess, 'listKernels' | 'openNamespaces' | 'listStore' | 'openCheckpoints'>;

export class Backend implements LocalWork {
  readonly #here: LocalWork;
  #reach: Promise<Reach> | undefined;

  constructor(here: LocalWork) {
    this.#here = here;
  }

  async openSession(options: OpenOptions) {
    const there = await this.server(options);
    if (!there) return await this.#here.openSession(options);
    const { openRemoteSession } = await import('./remote-backend.ts');
    return await openRemoteSession(there, options, { startKernel: true });
  }

  async listKernels(place: StorageTarget) {
    return await ((await this.server(place))?.client.kernels() ?? this.#here.listKernels(place));
  }

  async openNamespaces(options: NamespaceTarget) {
    const there = await this.server(options);
    if (!there) return await this.#here.openNamespaces(options);
    const { openRemoteNamespaces: namespacesAt, withRemoteDeps: withDepsAt } = await import('./remote-backend.ts');
    if (!there.sameStorage) return await namespacesAt(there, options);
    return withDepsAt(there, options, await this.#here.openNamespaces(options));
  }

  async listStore(place: StorageTarget) {
    const there = await this.#elsewhere(place);
    if (!there) return await this.#here.listStore(place);
    return await (await import('./remote-backend.ts')).listRemoteStorage(there, place);
  }

  async openCheckpoints(where: StorageTarget & { readonly agentKey: string }) {
    const there = await this.#elsewhere(where);
    if (!there) return await this.#here.openCheckpoints(where);
    return (await import('./remote-backend.ts')).openRemoteCheckpoints(there, where);
  }

  /** Undefined where none is named and none runs on the data folder. */
  async server(place: StorageTarget): Promise<ServerConnection | undefined> {
    // Most commands need nothing of all that.
    if (!place.server && !existsSync(join(place.dataDir, SOCKET_FILE))) return undefined;
    this.#reach ??= import('./find-server.ts').then(({ Reach }) => new Reach());
    return await (await this.#reach).server(place);
  }

  async close(): Promise<void> {
    await (await this.#reach)?.close();
  }

  /** Storage that the server on the data folder shares can be looked at without it. */
  async #elsewhere(place: StorageTarget): Promise<ServerConnection | undefined> {
    const there = await this.server(place);
    return there?.sameStorage ? undefined : there;
  }
}

type RedisPlace = NonNullable<StorageTarget['redis']>;

export class LocalStores {
  readonly #redis = new Map<string, Promise<Storage>>();
  readonly #first = new Set<() => Promise<void>>();

  /** Undefined where sessions find it themselves: in the files of their data folder. */
  async redis(place: RedisPlace | undefined): Promise<Storage | undefined> {
    if (!place) return undefined;
    const key = JSON.stringify([place.url, place.prefix]);
    const opening = this.#redis.get(key) ?? openRedis(place);
    this.#redis.set(key, opening);
    // A server that is not there may come back.
    opening.catch(() => this.#redis.delete(key));
    return await opening;
  }

  async listKernels(place: StorageTarget): Promise<readonly KernelInfo[]> {
    const { listKernels } = await import('../../session/kernel-list.ts');
    await this.#closeFilesAtEnd();
    return await listKernels({ dataDir: place.dataDir, storage: await this.redis(place.redis) });
  }

  async openCheckpoints({
    agentKey,
    ...place
  }: StorageTarget & { readonly agentKey: string }): Promise<CheckpointCatalog> {
    const { toCheckpoint } = await import('../../kernel-manager/kernel-checkpoints.ts');
    const { checkpoints } = await this.#open(place);
    return {
      list: async () => (await checkpoints.list(agentKey)).map(toCheckpoint),
      damaged: () => checkpoints.damaged(agentKey),
      delete: (id) => checkpoints.delete(agentKey, id),
    };
  }

  async openNamespaces({ redis, ...options }: NamespaceTarget): Promise<OpenedNamespaces> {
    const { openNamespaces } = await import('../../session/session-namespaces.ts');
    await this.#closeFilesAtEnd();
    const { dataDir, python, packages, toolFolders, executor, image, engine } = options;
    const place = { dataDir, storage: await this.redis(redis), executor, image, engine };
    return await openNamespaces({ ...place, python, packages, toolFolders });
  }

  async list(place: StorageTarget): Promise<StorageContents> {
    const { tools, skills, artifacts, deps } = await this.#open(place);
    const nameOf = ({ name }: { readonly name: string }) => name;
    return {
      tools: (await tools.list()).map(nameOf),
      skills: (await skills.list()).map(nameOf),
      artifacts: (await artifacts.list()).map(({ name, size }) => ({ name, size })),
      deps: await deps.list(),
    };
  }

  async copy(
    from: StorageTarget,
    to: StorageTarget,
    options: CopyOptions,
  ): Promise<{ copied: CopiedItem[]; skipped: CopiedItem[] }> {
    const { copyNamespaces } = await import('../../storage/copy-namespaces.ts');
    const onProgress = ({ name, done }: { name: string; done: string }) => options.onProgress(`${name} ${done}`);
    return await copyNamespaces(await this.#open(from), await this.#open(to), { ...options, onProgress });
  }

  /** What must end before the storages do. */
  closeFirst(end: () => Promise<void>): void {
    this.#first.add(end);
  }

  async close(): Promise<void> {
    for (const end of this.#first) await end();
    // One that could not be opened has told whoever asked for it.
    for (const opening of this.#redis.values()) await (await opening.catch(() => undefined))?.close();
  }

  async #open({ dataDir, redis }: StorageTarget): Promise<Storage> {
    const [{ acquireStorage }, { dataFolder }] = await Promise.all([
      import('../../session/shared-resources.ts'),
      import('../../session/data-folders.ts'),
    ]);
    await this.#closeFilesAtEnd();
    return await acquireStorage(await this.redis(redis), dataFolder(dataDir)).resource;
  }

  async #closeFilesAtEnd(): Promise<void> {
    const { closeStorages } = await import('../../session/shared-resources.ts');
    this.closeFirst(closeStorages);
  }
}

async function openRedis({ url, prefix }: RedisPlace): Promise<Storage> {
  const { openStorage } = await import('../../session/shared-resources.ts');
  return await openStorage({ storage: 'redis', dataDir: '', redisUrl: url, prefix });
}

/** Makes nothing where there is nothing. What the server tells of itself comes first: its database may be harmed. */
export async function watchFolder(dataDir: string): Promise<FolderWatch> {
  const [{ FileStorage }, { ProcessLiveness }, { folderHolder, announcedHolder: toldHolder }] = await Promise.all([
    import('../../storage/file/storage.ts'),
    import('../../storage/file/process-liveness.ts'),
    import('../../server/data-folder.ts'),
  ]);
  const liveness = new ProcessLiveness(join(dataDir, 'processes'));
  const byLock = async () => {
    if (!existsSync(join(dataDir, 'cella.db'))) return undefined;
    await using files = await FileStorage.open(dataDir);
    return await folderHolder(files.locks);
  };
  return {
    holder: async () => {
      const told = toldHolder(dataDir);
      if (told && liveness.isAlive(told.id)) return told;
      return liveness.inUse ? await byLock() : undefined;
    },
    holderState: ({ id }) => liveness.statusOf(id),
    [Symbol.asyncDispose]: async () => liveness.close(),
  };
}
