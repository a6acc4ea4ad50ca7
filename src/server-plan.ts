/** From the options of `Server.open` to a server: with what variables and the config file say beneath them, as for `cella serve`. */

import { join } from 'node:path';
import type { StoragePlace } from './cli/context.ts';
import { UsageError } from './cli/exit.ts';
import { requestOf } from './cli/serve/request.ts';
import { configuredFor } from './configured.ts';
import { readCredential } from './environment.ts';
import { SOCKET_FILE } from './protocol/enums.ts';
import { CellaError } from './protocol/errors.ts';
import { defined } from './server/permissions/told.ts';
import type { Wanted } from './server/serve-options.ts';
import { ServerOptions } from './server-options.ts';
import { dataFolder } from './session/data-folders.ts';
import { parseOptions } from './session/session-options.ts';
import type { Storage } from './storage/contract.ts';

export interface ServerPlan {
  readonly place: StoragePlace;
  readonly socket: string;
  /** All but the storage: one that is named by an address is opened with the server. */
  readonly wanted: Omit<Wanted, 'version' | 'mcp' | 'storage'>;
  readonly storage: Storage | undefined;
}

export async function planServer(options: ServerOptions): Promise<ServerPlan> {
  const { dataDir: named, storage, credentials, masterKey, port, ...given } = parseOptions(ServerOptions, options);
  const dataDir = dataFolder(named);
  const environment = await configuredFor(dataDir);
  const {
    place: { redis },
    tls,
    advertise,
    ...settings
  } = await inWords(() => requestOf({}, environment));
  const place = placeOf(dataDir, storage, redis);
  const keys = { current: masterKey ?? environment.masterKey, old: environment.oldMasterKey };
  const wanted = {
    ...settings,
    ...defined(given),
    gateway: { ...settings.gateway, ...given.gateway },
    quotas: { ...settings.quotas, ...given.quotas },
    retention: { ...settings.retention, ...given.retention },
    dataDir,
    // Whatever a team's server is told: this one is for the machine alone. Others on a Redis reach it by a port.
    ...{ address: '127.0.0.1', insecureHttp: false, port: port ?? (place.redis ? 0 : undefined) },
    masterKey: keys,
    session: { credentials: credentials ?? (async (name: string) => readCredential(name)) },
  };
  return { place, socket: join(dataDir, SOCKET_FILE), wanted, storage };
}

function placeOf(dataDir: string, storage: Storage | undefined, named: StoragePlace['redis']): StoragePlace {
  if (!storage) return { dataDir, ...(named ? { redis: named } : {}) };
  const config = storage.toBootstrapConfig();
  if (config.type === 'redis') return { dataDir, redis: { url: config.url, prefix: config.prefix } };
  throw new CellaError('INVALID_OPTIONS', 'storage: files of a server lie in its data folder; name it with dataDir.');
}

/** What a variable says wrong, or a folder, is told as what an option says wrong. */
export async function inWords<T>(read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new CellaError('INVALID_OPTIONS', error.message, { cause: error, advice: error.advice });
  }
}
