/** Where a command line says that agents and their things are kept: in a data folder, or on a Redis server. */

import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import type { StoragePlace } from './context.ts';
import { UsageError } from './exit.ts';
import { parseText } from './parse-text.ts';
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
  const flag = (name: string, about: string) => new Option(name, about).helpGroup(GROUP);
  const files = 'where Cella keeps its files (default: CELLA_DATA_DIR, else ~/.local/share/cella)';
  const kind = 'what names and things are kept in (default: CELLA_STORAGE, else file)';
  const server = 'the Redis server, such as redis://127.0.0.1:6379 (default: CELLA_REDIS)';
  const keys = 'what every key there begins with (default: CELLA_PREFIX, else cella)';
  return command
    .addOption(flag('--data <dir>', files).argParser(parseText))
    .addOption(flag('--storage <file|redis>', kind).choices(['file', 'redis']))
    .addOption(flag('--redis <url>', server).argParser(parseText))
    .addOption(flag('--prefix <text>', keys).argParser(parseText));
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
