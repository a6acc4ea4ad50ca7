/** The options of `Server.open`: their schema, and the server settings that they resolve to. Loaded when a server is opened. */

import { join } from 'node:path';
import { z } from 'zod';
import { UsageError } from './cli/command-errors.ts';
import { toServeRequest } from './cli/commands/serve-request.ts';
import type { StorageTarget } from './cli/context.ts';
import { omitUndefined } from './lib/omit-undefined.ts';
import { Quotas } from './protocol/access-models.ts';
import { keyModes, SOCKET_FILE } from './protocol/enums.ts';
import { CellaError } from './protocol/errors.ts';
import { parseOptions } from './protocol/parse.ts';
import { milliseconds } from './protocol/session-info.ts';
import type { ResolvedServeSettings } from './server/serve-options.ts';
import { dataFolder } from './session/data-folders.ts';
import { SessionOptions } from './session/session-options.ts';
import { loadConfigFor, readCredential } from './settings/process-config.ts';
import { logLevels } from './settings/server-config.ts';
import type { Storage } from './storage/contract.ts';

const { dataDir, storage, python, packages, toolFolders, credentials } = SessionOptions.shape;
const count = z.int().min(1).max(100_000);
const words = z.array(z.string().min(1)).readonly();
const bytes = z.number().min(0);

export const ServerOptions = z.strictObject({
  dataDir,
  /** Where sessions and their things are kept, in place of files in the data folder. Whoever opened it closes it. */
  storage,
  /** Listens at this port of 127.0.0.1 too, 0 for any that is free. By default only the user of this process reaches it. */
  port: z.int().min(0).max(65_535).optional(),
  python,
  packages: packages.unwrap().optional(),
  toolFolders: toolFolders.unwrap().optional(),
  credentials,
  /** What stored keys are encrypted with: 64 hexadecimal digits, or 32 bytes in base64. */
  masterKey: z.string().min(1).optional(),
  /** Kernels that may live at a time, and how long until an idle one sleeps. */
  maxKernels: count.optional(),
  idleMs: milliseconds.optional(),
  /** Executors of agents that may live at a time, and how long one is kept for the next prompt. */
  maxAgents: count.optional(),
  agentIdleMs: milliseconds.optional(),
  /** How agents get to their models, as the flags of `cella serve` have it. */
  gateway: z
    .strictObject({
      keys: z.enum(keyModes).optional(),
      providers: words.optional(),
      models: words.optional(),
      prices: words.optional(),
      sessionUsd: z.number().min(0).optional(),
      sessionTokens: z.int().min(0).optional(),
    })
    .optional(),
  quotas: Quotas.optional(),
  /** How much of each session's events stays; 0 is all. */
  retention: z
    .strictObject({
      maxAgeMs: milliseconds.optional(),
      maxBytes: bytes.optional(),
      maxFileBytes: bytes.optional(),
    })
    .optional(),
  /** Whether results are on the disk before they are told. */
  flushResults: z.boolean().optional(),
  /** How long running code has when the server ends. */
  graceMs: milliseconds.optional(),
  logLevel: z.enum(logLevels).default('silent'),
  logFile: z.string().min(1).optional(),
});

/** What a caller writes. */
export type ServerOptions = z.input<typeof ServerOptions>;
export type CheckedServerOptions = z.output<typeof ServerOptions>;

export interface ResolvedServerOptions {
  readonly place: StorageTarget;
  readonly socket: string;
  /** All but the storage: one that is named by an address is opened with the server. */
  readonly wanted: Omit<ResolvedServeSettings, 'version' | 'mcp' | 'storage'>;
  readonly storage: Storage | undefined;
}

export async function resolveServerOptions(options: ServerOptions): Promise<ResolvedServerOptions> {
  const { dataDir: named, storage, credentials, masterKey, port, ...given } = parseOptions(ServerOptions, options);
  const dataDir = dataFolder(named);
  const environment = await loadConfigFor(dataDir);
  const {
    place: { redis },
    tls,
    advertise,
    ...settings
  } = await asOptionsError(() => toServeRequest({}, environment));
  const place = placeOf(dataDir, storage, redis);
  const keys = { current: masterKey ?? environment.masterKey, old: environment.oldMasterKey };
  const wanted = {
    ...settings,
    ...omitUndefined(given),
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

function placeOf(dataDir: string, storage: Storage | undefined, named: StorageTarget['redis']): StorageTarget {
  if (!storage) return { dataDir, redis: named };
  const config = storage.toBootstrapConfig();
  if (config.type === 'redis') return { dataDir, redis: { url: config.url, prefix: config.prefix } };
  throw new CellaError('INVALID_OPTIONS', 'storage: files of a server lie in its data folder; name it with dataDir.');
}

/** What a variable says wrong, or a folder, is told as what an option says wrong. */
export async function asOptionsError<T>(read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new CellaError('INVALID_OPTIONS', error.message, { cause: error, advice: error.advice });
  }
}
