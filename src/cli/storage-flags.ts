/** Where a command line says that agents and their things are kept: in a data folder, or on a Redis server. */

import { resolve } from 'node:path';
import type { Command } from 'commander';
import { settings } from '../settings/settings-table.ts';
import type { StoragePlace } from './context.ts';
import { UsageError } from './exit.ts';
import { addSettings } from './setting-flags.ts';
import { toWord } from './texts.ts';

export interface StorageFlags {
  readonly storage?: 'file' | 'redis';
  readonly data?: string;
  readonly redis?: string;
  readonly prefix?: string;
}

/** What stands in for a flag that is not given. */
export interface StorageDefaults {
  readonly dataDir: string;
  /** Any text: a variable may hold it. */
  readonly storage?: string | undefined;
  readonly redis?: string | undefined;
  readonly prefix?: string | undefined;
}

const GROUP = 'Storage:';

export function addStorageFlags(command: Command): Command {
  const { dataDir, storage, redis, prefix, config } = settings;
  return addSettings(command, [dataDir, storage, redis, prefix, config], { group: GROUP });
}

export function dataDirOf(flags: Pick<StorageFlags, 'data'>, defaults: Pick<StorageDefaults, 'dataDir'>): string {
  return flags.data === undefined ? defaults.dataDir : resolve(flags.data);
}

/** A flag wins over a variable. The address of a server alone chooses Redis where it is a flag. */
export function storagePlaceOf(flags: StorageFlags, defaults: StorageDefaults): StoragePlace {
  const dataDir = dataDirOf(flags, defaults);
  if (kindOf(flags, defaults) === 'file') {
    const unused = flags.redis !== undefined ? '--redis' : flags.prefix !== undefined ? '--prefix' : undefined;
    if (unused === undefined) return { dataDir };
    throw new UsageError(`${unused} means nothing to files.`, `Leave it out, or add --storage redis.`);
  }
  const url = flags.redis ?? defaults.redis;
  if (url === undefined) {
    throw new UsageError(
      'Redis storage needs the address of its server.',
      'Name it with --redis redis://127.0.0.1:6379, or in CELLA_REDIS.',
    );
  }
  const prefix = flags.prefix ?? defaults.prefix;
  return { dataDir, redis: { url, ...(prefix === undefined ? {} : { prefix }) } };
}

function kindOf(flags: StorageFlags, defaults: StorageDefaults): 'file' | 'redis' {
  if (flags.storage !== undefined) return flags.storage;
  if (flags.redis !== undefined) return 'redis';
  const { storage = 'file' } = defaults;
  if (storage === 'file' || storage === 'redis') return storage;
  throw new UsageError(
    `CELLA_STORAGE is ${JSON.stringify(storage)}, which is no storage.`,
    'Set it to file or redis, or choose with --storage.',
  );
}

export function placeToText({ dataDir, redis, server }: StoragePlace): string {
  if (server) return server.url;
  return redis === undefined ? dataDir : withoutPassword(redis.url);
}

/** The flags as they can be typed again, with a space before each. */
export function retyped({ storage, data, redis, prefix }: StorageFlags): string {
  const shown = { storage, data, redis: redis && withoutPassword(redis), prefix };
  return Object.entries(shown)
    .map(([name, value]) => (value === undefined ? '' : ` --${name} ${toWord(value)}`))
    .join('');
}

/** An address for people to read. One that is no address may still hold a secret. */
function withoutPassword(url: string): string {
  return url.replace(/(:\/\/[^/@:]*):.*@/s, '$1:***@');
}
