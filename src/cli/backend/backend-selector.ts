import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SOCKET_FILE } from '../../protocol/enums.ts';
import type { KernelInfo } from '../../protocol/kernel-state.ts';
import type { SessionApi, UserNamespacesApi } from '../../session/api.ts';
import type {
  Backend,
  CheckpointCatalog,
  CheckpointTarget,
  NamespaceTarget,
  OpenOptions,
  StorageContents,
  StorageTarget,
} from './backend.ts';
import type { LocalBackend } from './local-backend.ts';
import type { RemoteBackend } from './remote-backend.ts';

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
