/** Flags that select what a command works on (a data folder, Redis, or a server), and the resulting target. */

import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { Client } from '../client/index.ts';
import { type ProcessConfig, resolveStorage, type StorageFlags } from '../settings/process-config.ts';
import { holdsPassword } from '../settings/setting.ts';
import { settings } from '../settings/settings-table.ts';
import type { StorageTarget } from './backend/backend.ts';
import type { ServerFlags } from './backend/find-server.ts';
import { UsageError } from './command-errors.ts';
import { CommandOutput } from './command-output.ts';
import type { CommandContext, Done } from './define-command.ts';
import { shellQuote } from './format.ts';
import { addSetting, addSettings } from './options.ts';

export interface TargetFlags extends StorageFlags {
  readonly url?: string;
  readonly tokenFile?: string;
}

/** Defaults for flags that are not given. */
export type TargetDefaults = Pick<ProcessConfig, 'dataDir'> &
  Partial<Pick<ProcessConfig, 'storage' | 'redis' | 'prefix' | 'serverUrl' | 'serverToken' | 'serverTokenFile'>>;

const SERVER_GROUP = 'Server:';

/** Set `tokenFile: false` for a command that uses this flag for something else. */
export function addTargetFlags(command: Command, { tokenFile = true } = {}): Command {
  const otherwise = 'the server on the data folder, if one runs';
  addSetting(addStorageFlags(command), settings.url, { about: 'address of a server', otherwise, group: SERVER_GROUP });
  return tokenFile ? addSetting(command, settings.tokenFile, { group: SERVER_GROUP }) : command;
}

/** A storage flag overrides the variable that names a server. */
export function resolveTarget(flags: TargetFlags, defaults: TargetDefaults): StorageTarget {
  const named = (['data', 'storage', 'redis', 'prefix'] as const).find((name) => flags[name] !== undefined);
  if (flags.url !== undefined && named !== undefined) {
    throw new UsageError(
      `--${named} cannot be used with --url: the server has its own storage.`,
      'Leave one of them out.',
    );
  }
  const url = flags.url ?? (named === undefined ? defaults.serverUrl : undefined);
  if (url === undefined) {
    if (flags.tokenFile === undefined) return resolveStorage(flags, defaults);
    throw new UsageError('--token-file needs --url.', 'Leave it out, or add --url ADDRESS.');
  }
  const token = flags.tokenFile === undefined ? defaults.serverToken : undefined;
  const tokenFile = flags.tokenFile ?? (token === undefined ? defaults.serverTokenFile : undefined);
  return { dataDir: defaults.dataDir, server: { url, tokenFile, token } };
}

/** The flags to type again, each after a space. */
export function formatTargetFlags({ url, tokenFile, ...flags }: TargetFlags): string {
  const shown = { url, 'token-file': tokenFile };
  const server = Object.entries(shown).map(([name, value]) =>
    value === undefined ? '' : ` --${name} ${shellQuote(value)}`,
  );
  return formatStorageFlags(flags) + server.join('');
}

const STORAGE_GROUP = 'Storage:';

export function addStorageFlags(command: Command): Command {
  const { dataDir, storage, redis, prefix, config } = settings;
  return addSettings(command, [dataDir, storage, redis, prefix, config], { group: STORAGE_GROUP });
}

export function describeTarget({ dataDir, redis, server }: StorageTarget): string {
  if (server) return server.url;
  return redis === undefined ? dataDir : withoutPassword(redis.url);
}

/** The flags to type again, each after a space. */
export function formatStorageFlags({ storage, data, redis, prefix }: StorageFlags): string {
  const shown = { storage, data, redis: redis && withoutPassword(redis), prefix };
  return Object.entries(shown)
    .map(([name, value]) => (value === undefined ? '' : ` --${name} ${shellQuote(value)}`))
    .join('');
}

/** An address for display. Text that is not a valid address may still contain a secret. */
function withoutPassword(url: string): string {
  return url.replace(/(:\/\/[^/@:]*):.*@/s, '$1:***@');
}

/** Parses `redis://host:port/?prefix=team`, or a folder. `dataDir` is for files that Redis storage does not hold. */
export function parseStorageUrl(text: string, dataDir: string): StorageTarget {
  if (!/^rediss?:/i.test(text)) {
    if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
      throw new UsageError('A storage is a data folder, or the address of a Redis server.', EXAMPLES);
    }
    return { dataDir: resolve(text) };
  }
  // Every user of a machine can read arguments. The message does not repeat the text.
  if (holdsPassword(text)) {
    throw new UsageError(
      'The address has a password, and every user of this machine can read arguments.',
      PASSWORD_ADVICE,
    );
  }
  if (!URL.canParse(text)) throw new UsageError('This is not the address of a Redis server.', EXAMPLES);
  const url = new URL(text);
  const prefix = url.searchParams.get('prefix');
  const unknown = [...url.searchParams.keys()].find((name) => name !== 'prefix');
  if (unknown !== undefined) throw new UsageError(`A Redis address cannot have ?${unknown}=.`, EXAMPLES);
  url.search = '';
  return { dataDir, redis: { url: url.href, prefix: prefix ?? undefined } };
}

/** The address to type again, without its password. */
export function formatStorageUrl(target: StorageTarget): string {
  const address = describeTarget(target);
  const prefix = target.redis?.prefix;
  if (prefix === undefined) return address;
  return `${address.replace(/(:\/\/[^/]*)$/, '$1/')}?prefix=${encodeURIComponent(prefix)}`;
}

const PASSWORD_ADVICE =
  'Set it in CELLA_REDIS with CELLA_STORAGE=redis, and pull from the other storage: `cella storage pull FOLDER`.';
const EXAMPLES = 'Name it as in ./data or redis://127.0.0.1:6379/?prefix=team.';

/** Copying from a missing folder would create it. */
export function checkSourceFolder({ dataDir, redis }: StorageTarget): void {
  if (redis || existsSync(dataDir)) return;
  throw new UsageError(`There is no folder ${dataDir}.`, 'Name the data folder of another Cella.');
}

export interface JsonServerFlags extends ServerFlags {
  readonly json?: boolean;
}

type ServerWork = (client: Client, output: CommandOutput) => Promise<number>;

export function addJsonServerFlags(command: Command, about = 'print one JSON object'): Command {
  return addServerFlags(command).option('--json', about);
}

/** Runs the work of one command with a client of the server that its flags name. */
export function serverRunner(
  context: CommandContext,
  done: Done,
): (flags: JsonServerFlags, work: ServerWork) => Promise<void> {
  return async (flags, work) => {
    const { connectToServer } = await import('./backend/find-server.ts');
    await using client = await connectToServer(flags, context.defaults);
    done(await work(client, new CommandOutput(context.terminal, flags)));
  };
}

export function addServerFlags(command: Command): Command {
  const group = SERVER_GROUP;
  addSettings(command, [settings.url, settings.tokenFile], { group });
  addSetting(command, settings.dataDir, { about: 'data folder of a server on this machine', group });
  return addSetting(command, settings.config, { group });
}
