/** Where a command line says that agents live: at the server of an address, or on this machine. */

import type { Command } from 'commander';
import { settings } from '../settings/settings-table.ts';
import type { StoragePlace } from './context.ts';
import { UsageError } from './exit.ts';
import { addSetting } from './setting-flags.ts';
import { addStorageFlags, retyped, type StorageDefaults, type StorageFlags, storagePlaceOf } from './storage-flags.ts';
import { toWord } from './texts.ts';

export interface WhereFlags extends StorageFlags {
  readonly url?: string;
  readonly tokenFile?: string;
}

/** What stands in for a flag that is not given. */
export interface WhereDefaults extends StorageDefaults {
  readonly serverUrl?: string | undefined;
  readonly serverToken?: string | undefined;
  readonly serverTokenFile?: string | undefined;
}

const GROUP = 'Server:';

/** `tokenFile: false` for a command that calls something else so. */
export function addWhereFlags(command: Command, { tokenFile = true } = {}): Command {
  const otherwise = 'the one that runs on the data folder, if any';
  addSetting(addStorageFlags(command), settings.url, { about: 'a server elsewhere', otherwise, group: GROUP });
  return tokenFile ? addSetting(command, settings.tokenFile, { group: GROUP }) : command;
}

/** A storage that is named by hand is meant, whatever the variables say. */
export function whereOf(flags: WhereFlags, defaults: WhereDefaults): StoragePlace {
  const named = (['data', 'storage', 'redis', 'prefix'] as const).find((name) => flags[name] !== undefined);
  if (flags.url !== undefined && named !== undefined) {
    throw new UsageError(
      `--${named} means nothing to the server at --url, which has its own.`,
      'Leave one of them out.',
    );
  }
  const url = flags.url ?? (named === undefined ? defaults.serverUrl : undefined);
  if (url === undefined) {
    if (flags.tokenFile === undefined) return storagePlaceOf(flags, defaults);
    throw new UsageError('--token-file means nothing without --url.', 'Leave it out, or add --url ADDRESS.');
  }
  const token = flags.tokenFile === undefined ? defaults.serverToken : undefined;
  const tokenFile = flags.tokenFile ?? (token === undefined ? defaults.serverTokenFile : undefined);
  return {
    dataDir: defaults.dataDir,
    server: { url, ...(tokenFile === undefined ? {} : { tokenFile }), ...(token === undefined ? {} : { token }) },
  };
}

/** The flags as they can be typed again, with a space before each. */
export function whereRetyped({ url, tokenFile, ...flags }: WhereFlags): string {
  const shown = { url, 'token-file': tokenFile };
  const server = Object.entries(shown).map(([name, value]) =>
    value === undefined ? '' : ` --${name} ${toWord(value)}`,
  );
  return retyped(flags) + server.join('');
}
