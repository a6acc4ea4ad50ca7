/** ServerConfig: the settings of a server, resolved once from flags or options, variables, the config file and defaults. */

import { z } from 'zod';
import type { StorageLocation } from '../protocol/server-info.ts';
import type { PackageOptions } from './process-config.ts';
import {
  type Given,
  isSetting,
  type Resolved,
  resolveSetting,
  type Setting,
  type SettingGroup,
  type Variables,
} from './setting.ts';
import { serverSettings, settings } from './settings-table.ts';

export interface ServerConfig extends Omit<Resolved<typeof serverSettings>, 'port'>, StorageLocation {
  /** Without it, only the user of this process reaches the server, by its socket. */
  readonly port?: number | undefined;
  readonly python?: string | undefined;
  readonly packages?: PackageOptions | undefined;
  readonly toolFolders?: string[] | undefined;
  /** The key that encrypts credentials, in place of the file `master-key` in the data folder. */
  readonly masterKey: { readonly current?: string | undefined; readonly old?: string | undefined };
}

/** Values of flags or options. Storage, packages, Python and tools are resolved before, as for every command. */
export interface GivenServerConfig
  extends Given<typeof serverSettings>,
    StorageLocation,
    Pick<ServerConfig, 'python' | 'packages' | 'toolFolders'> {
  readonly masterKey?: string | undefined;
}

export function resolveServerConfig(given: GivenServerConfig, variables: Variables = {}): ServerConfig {
  const { dataDir, redis, python, packages, toolFolders, masterKey, ...own } = given;
  return {
    ...resolveGroup(serverSettings, own, variables),
    dataDir,
    redis,
    packages,
    python,
    toolFolders,
    masterKey: {
      current: resolveSetting(settings.masterKey, masterKey, variables),
      old: resolveSetting(settings.oldMasterKey, undefined, variables),
    },
  };
}

/** The defaults of the table. */
export const serverDefaults: Resolved<typeof serverSettings> = resolveGroup(serverSettings, {}, {});

interface Values {
  readonly [name: string]: unknown;
}

function resolveGroup<G extends SettingGroup>(group: G, given: Values, variables: Variables): Resolved<G> {
  const entries = Object.entries(group).map(([name, entry]) => {
    const value = given[name];
    if (isSetting(entry)) return [name, resolveSetting(entry, value, variables)];
    return [name, resolveGroup(entry, isObject(value) ? value : {}, variables)];
  });
  // The names of the group, each with the value of its setting.
  return Object.fromEntries(entries) as Resolved<G>;
}

function isObject(value: unknown): value is Values {
  return typeof value === 'object' && value !== null;
}

type SettingsShape<G> = {
  readonly [N in keyof G]: z.ZodOptional<
    G[N] extends Setting<infer T> ? z.ZodType<T, T> : z.ZodObject<SettingsShape<G[N]>>
  >;
};

/** A zod shape with an optional field for each of these settings, for programs. */
export function shapeOf<G extends SettingGroup>(group: G): SettingsShape<G> {
  const entries = Object.entries(group).map(([name, entry]) => {
    const schema = isSetting(entry) ? entry.type.schema(z) : z.strictObject(shapeOf(entry));
    return [name, schema.optional()];
  });
  return Object.fromEntries(entries) as SettingsShape<G>;
}
