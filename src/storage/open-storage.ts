/** Opens a storage: files or Redis. The code for each is loaded when it is first used. */

import { CellaError } from '../protocol/errors.ts';
import { describeProblems } from '../protocol/parse.ts';
import type { StorageLocation } from '../protocol/server-info.ts';
import { BootstrapConfig, type Storage } from './contract.ts';

/** The caller closes it. */
export async function openStorage(config: BootstrapConfig): Promise<Storage> {
  switch (config.type) {
    case 'file': {
      const { FileStorage } = await import('./file/file-storage.ts');
      return await FileStorage.open(config.path);
    }
    case 'redis':
      return await openRedis(config);
  }
}

/** The caller closes it. */
export async function openRedis({ url, prefix }: NonNullable<StorageLocation['redis']>): Promise<Storage> {
  const { RedisStorage } = await import('./redis/redis-storage.ts');
  return await RedisStorage.open(url, { prefix });
}

/** From what `toBootstrapConfig` returned, in another trusted process. */
export async function storageFromBootstrap(config: unknown): Promise<Storage> {
  const checked = checkConfig(config);
  const storage = await openStorage(checked);
  return checked.scope === undefined ? storage : storage.scope(checked.scope);
}

/** The error never repeats the input, which may contain a password. */
function checkConfig(config: unknown): BootstrapConfig {
  const parsed = BootstrapConfig.safeParse(config);
  if (parsed.success) return parsed.data;
  const problems = describeProblems(parsed.error, 'it');
  throw new CellaError('INVALID_OPTIONS', `This is not the bootstrap config of a storage: ${problems.join('; ')}.`);
}
