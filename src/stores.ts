/** The storages that a command line has named, opened once each and closed at its end. Heavy parts load when used. */

import type {
  NamespacesOptions,
  Shelf,
  StoragePlace,
  StoreContents,
  TransferItem,
  TransferOptions,
} from './cli/context.ts';
import type { AgentInfo } from './session/api.ts';
import type { OpenedNamespaces } from './session/session-namespaces.ts';
import type { Storage } from './storage/contract.ts';

type RedisPlace = NonNullable<StoragePlace['redis']>;

export class OpenStores {
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

  async listAgents(place: StoragePlace): Promise<readonly AgentInfo[]> {
    const { listAgents } = await import('./session/kernel-list.ts');
    await this.#closeFilesAtEnd();
    return await listAgents({ dataDir: place.dataDir, storage: await this.redis(place.redis) });
  }

  async openShelf({ agentKey, ...place }: StoragePlace & { readonly agentKey: string }): Promise<Shelf> {
    const { checkpoints } = await this.#open(place);
    return {
      list: async () => {
        const manifests = await checkpoints.list(agentKey);
        return manifests.map(({ format, segments, kind, ...facts }) => {
          const { name, ...others } = facts;
          return { ...others, ...(name === undefined ? {} : { name }), kind: 'durable', automatic: kind === 'save' };
        });
      },
      damaged: () => checkpoints.damaged(agentKey),
      delete: (id) => checkpoints.delete(agentKey, id),
    };
  }

  async openNamespaces({ redis, ...options }: NamespacesOptions): Promise<OpenedNamespaces> {
    const { openNamespaces } = await import('./session/session-namespaces.ts');
    await this.#closeFilesAtEnd();
    const { dataDir, python, packages, toolFolders, executor, image, engine } = options;
    const place = { dataDir, storage: await this.redis(redis), executor, image, engine };
    return await openNamespaces({ ...place, python, packages, toolFolders });
  }

  async list(place: StoragePlace): Promise<StoreContents> {
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
    from: StoragePlace,
    to: StoragePlace,
    options: TransferOptions,
  ): Promise<{ copied: TransferItem[]; skipped: TransferItem[] }> {
    const { copyNamespaces } = await import('./storage/copy-namespaces.ts');
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

  async #open({ dataDir, redis }: StoragePlace): Promise<Storage> {
    const [{ storageFor }, { dataFolder }] = await Promise.all([
      import('./session/shared-resources.ts'),
      import('./session/data-folders.ts'),
    ]);
    await this.#closeFilesAtEnd();
    return await storageFor(await this.redis(redis), dataFolder(dataDir)).storage;
  }

  async #closeFilesAtEnd(): Promise<void> {
    const { closeStorages } = await import('./session/shared-resources.ts');
    this.closeFirst(closeStorages);
  }
}

async function openRedis({ url, prefix }: RedisPlace): Promise<Storage> {
  const { openStorage } = await import('./session/shared-resources.ts');
  return await openStorage({ storage: 'redis', dataDir: '', redisUrl: url, prefix });
}
