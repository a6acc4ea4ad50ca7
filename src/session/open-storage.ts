/** The storage that a person names: a data folder, or a Redis server with a prefix. Heavy parts load when used. */

import { CellaError } from '../protocol/errors.ts';
import type { Storage } from '../storage/contract.ts';

export interface StorageChoice {
  readonly storage: 'file' | 'redis';
  readonly dataDir: string;
  /** `redis://[:password@]host:port/database`. */
  readonly redisUrl?: string | undefined;
  readonly prefix?: string | undefined;
}

const DEFAULT_PREFIX = 'cella';

/** Whoever opens it closes it. */
export async function openStorage(choice: StorageChoice): Promise<Storage> {
  if (choice.storage === 'file') {
    const { FileStorage } = await import('../storage/file/storage.ts');
    return await FileStorage.open(choice.dataDir);
  }
  if (choice.redisUrl === undefined) {
    const message = 'Redis storage needs the address of its server: --redis redis://127.0.0.1:6379, or CELLA_REDIS.';
    throw new CellaError('INVALID_OPTIONS', message);
  }
  const { RedisStorage } = await import('../storage/redis/storage.ts');
  return await RedisStorage.open(choice.redisUrl, { prefix: choice.prefix ?? DEFAULT_PREFIX });
}
