/** Opens a storage from what `toBootstrapConfig` returned, in another trusted process. */

import { CellaError } from '../protocol/errors.ts';
import { BootstrapConfig } from './bootstrap-config.ts';
import type { Storage } from './contract.ts';

export async function storageFromBootstrap(config: unknown): Promise<Storage> {
  const checked = checkConfig(config);
  const storage = await open(checked);
  return checked.scope === undefined ? storage : storage.scope(checked.scope);
}

/** Each storage is loaded when it is first asked for. */
async function open(checked: BootstrapConfig): Promise<Storage> {
  switch (checked.type) {
    case 'file': {
      const { FileStorage } = await import('./file/storage.ts');
      return FileStorage.open(checked.path);
    }
    case 'redis': {
      const { RedisStorage } = await import('./redis/storage.ts');
      return RedisStorage.open(checked.url, { prefix: checked.prefix });
    }
  }
}

/** What was given is never part of the error: it may hold a password. */
function checkConfig(config: unknown): BootstrapConfig {
  const parsed = BootstrapConfig.safeParse(config);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'it'}: ${message}`);
  throw new CellaError('INVALID_OPTIONS', `This is no storage's bootstrap config: ${problems.join('; ')}.`);
}
