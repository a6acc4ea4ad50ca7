/** The configuration of this process: its environment variables, with the config file as defaults. */

import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import { suggest } from '../lib/suggest.ts';
import { CellaError } from '../protocol/errors.ts';
import type { StorageLocation } from '../protocol/server-info.ts';
import { resolveSetting, type Setting } from './setting.ts';
import { allSettings, settings } from './settings-table.ts';

/** The source of packages. Defaults to PyPI. */
export interface PackageOptions {
  readonly index?: string;
  readonly extraIndexes?: string[];
  /** Folders with wheels in them. */
  readonly wheelFolders?: string[];
  readonly noIndex?: boolean;
}

export interface ProcessConfig {
  /** CELLA_AGENT_KEY: the default agent key. */
  readonly agentKey: string | undefined;
  /** CELLA_DATA_DIR, else `cella` in XDG_DATA_HOME, else `~/.local/share/cella`. Always absolute. */
  readonly dataDir: string;
  /** CELLA_PYTHON: a path, or a name on PATH. */
  readonly python: string | undefined;
  /** CELLA_EXECUTOR: where code runs, not yet validated. */
  readonly executor: string | undefined;
  /** CELLA_IMAGE: the image, for commands that run code in containers. */
  readonly image: string | undefined;
  /** CELLA_ENGINE, else DOCKER_HOST: the address of the container engine. */
  readonly engine: string | undefined;
  /** CELLA_STORAGE: `file` or `redis`, not yet validated. */
  readonly storage: string | undefined;
  /** CELLA_REDIS: the address of the server, for commands that use Redis. */
  readonly redis: string | undefined;
  /** CELLA_PREFIX: the prefix of every key in Redis. */
  readonly prefix: string | undefined;
  /** CELLA_INDEX, CELLA_EXTRA_INDEX (separated by spaces), CELLA_WHEELS (folders, by colons) and CELLA_NO_INDEX=1. */
  readonly packages: PackageOptions;
  /** CELLA_TOOLS: folders with definitions of tools, separated by colons. */
  readonly toolFolders: string[] | undefined;
  /** CELLA_MCP_TOKEN: the token that clients of the MCP server must send. */
  readonly mcpToken: string | undefined;
  /** CELLA_URL, CELLA_TOKEN and CELLA_TOKEN_FILE: the server to use, and the token for it. */
  readonly serverUrl: string | undefined;
  readonly serverToken: string | undefined;
  readonly serverTokenFile: string | undefined;
  /** CELLA_CONFIG: a config file in place of the one in the data folder. */
  readonly configFile: string | undefined;
  /** Every set variable of the settings table, not yet validated. */
  readonly variables: Readonly<Record<string, string>>;
  /** Variables that look like settings but are not. */
  readonly unknownVariables: readonly UnknownVariable[];
  /** XDG_RUNTIME_DIR: the folder of sockets of a user's own programs. */
  readonly runtimeDir: string | undefined;
  /** PATH: the search path for programs of the host. */
  readonly searchPath: string;
  /** HOME: the home folder of this process's user. */
  readonly home: string;
  /** NO_COLOR: any text in it turns colours off. */
  readonly noColor: boolean;
}

/** The values of the config file, by variable name. */
let configDefaults: Readonly<Record<string, string>> = {};

/** Sets defaults for variables that this process does not have. */
export function setConfigDefaults(variables: Readonly<Record<string, string>>): void {
  configDefaults = variables;
}

/** An empty variable counts as not set, so `under` applies. */
export function readProcessConfig(
  env: NodeJS.ProcessEnv = process.env,
  under: Readonly<Record<string, string>> = env === process.env ? configDefaults : {},
): ProcessConfig {
  const variables = variablesOf((variable) => env[variable] || under[variable]);
  const value = <T>(setting: Setting<T>) => resolveSetting(setting, undefined, variables);
  const dataDir = value(settings.dataDir);
  return {
    agentKey: value(settings.agentKey),
    dataDir: dataDir === undefined ? join(dataHome(env), 'cella') : resolve(dataDir),
    python: value(settings.python),
    executor: variables.CELLA_EXECUTOR,
    image: value(settings.image),
    engine: value(settings.engine) ?? (env.DOCKER_HOST || undefined),
    storage: variables.CELLA_STORAGE,
    redis: value(settings.redis),
    prefix: value(settings.prefix),
    packages: {
      index: value(settings.index),
      extraIndexes: value(settings.extraIndex),
      wheelFolders: value(settings.wheels),
      noIndex: value(settings.noIndex),
    },
    toolFolders: value(settings.tools)?.map((folder) => resolve(folder)),
    mcpToken: value(settings.mcpToken),
    serverUrl: value(settings.url),
    serverToken: value(settings.token),
    serverTokenFile: value(settings.tokenFile),
    configFile: value(settings.config),
    variables,
    unknownVariables: unknownVariables(Object.keys(env)),
    runtimeDir: env.XDG_RUNTIME_DIR && isAbsolute(env.XDG_RUNTIME_DIR) ? env.XDG_RUNTIME_DIR : undefined,
    searchPath: env.PATH ?? '',
    home: env.HOME || homedir(),
    noColor: Boolean(env.NO_COLOR),
  };
}

/** CELLA_MAX_SKILLS and CELLA_MAX_ARTIFACTS: limits per user. Throws INVALID_OPTIONS for an invalid number. */
export function readNamespaceLimit(what: 'skills' | 'artifacts'): number {
  const setting = what === 'skills' ? settings.maxSkills : settings.maxArtifacts;
  return resolveSetting(setting, undefined, readProcessConfig().variables);
}

function variablesOf(read: (variable: string) => string | undefined): Record<string, string> {
  const found: Record<string, string> = {};
  for (const { variable = '' } of allSettings) {
    const text = read(variable);
    if (text) found[variable] = text;
  }
  return found;
}

/** The XDG standard says to ignore relative paths. */
function dataHome(env: NodeJS.ProcessEnv): string {
  const named = env.XDG_DATA_HOME;
  if (named && isAbsolute(named)) return named;
  return join(env.HOME || homedir(), '.local', 'share');
}

/**
 * The secret with this name: CELLA_CREDENTIAL_ and the name in capitals, with `_` for characters that a variable name cannot
 * contain.
 */
export function readCredential(name: string, env: NodeJS.ProcessEnv = process.env): string | undefined {
  return env[`CELLA_CREDENTIAL_${name.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}`] || undefined;
}

type StorageDefaults = Pick<ProcessConfig, 'dataDir'> & Partial<Pick<ProcessConfig, 'storage' | 'redis' | 'prefix'>>;

/** The flags for the storage. */
export interface StorageFlags {
  readonly storage?: 'file' | 'redis';
  readonly data?: string;
  readonly redis?: string;
  readonly prefix?: string;
}

export function resolveDataDir({ data }: Pick<StorageFlags, 'data'>, defaults: Pick<ProcessConfig, 'dataDir'>): string {
  return data === undefined ? defaults.dataDir : resolve(data);
}

/** A flag overrides a variable. `--redis` alone selects Redis; CELLA_REDIS alone does not. */
export function resolveStorage(flags: StorageFlags, defaults: StorageDefaults): StorageLocation {
  const dataDir = resolveDataDir(flags, defaults);
  if (storageKind(flags, defaults) === 'file') {
    const unused = flags.redis !== undefined ? '--redis' : flags.prefix !== undefined ? '--prefix' : undefined;
    if (unused === undefined) return { dataDir };
    throw invalid(`${unused} has no effect on file storage.`, 'Leave it out, or add --storage redis.');
  }
  const url = flags.redis ?? defaults.redis;
  if (url === undefined) {
    throw invalid(
      'Redis storage needs the address of its server.',
      'Name it with --redis redis://127.0.0.1:6379, or in CELLA_REDIS.',
    );
  }
  const prefix = flags.prefix ?? defaults.prefix;
  return { dataDir, redis: { url, prefix } };
}

function storageKind(flags: StorageFlags, { storage }: StorageDefaults): 'file' | 'redis' {
  const given = flags.storage ?? (flags.redis === undefined ? undefined : 'redis');
  return resolveSetting(settings.storage, given, storage === undefined ? {} : { CELLA_STORAGE: storage });
}

/** The flags for packages. */
export interface PackageFlags {
  /** False if `--no-index` was given. */
  readonly index?: string | false;
  readonly extraIndex?: readonly string[];
  readonly wheels?: readonly string[];
}

/** Undefined if nothing is set. Flags override variables. */
export function resolvePackages(
  flags: PackageFlags,
  { packages: other = {} }: Partial<Pick<ProcessConfig, 'packages'>>,
): PackageOptions | undefined {
  const asked = typeof flags.index === 'string' || flags.extraIndex !== undefined;
  const noIndex = flags.index === false || (other.noIndex === true && !asked);
  if (noIndex && flags.extraIndex !== undefined) {
    throw invalid('--no-index cannot be combined with --extra-index.', 'Leave one of them out.');
  }
  const index = noIndex ? undefined : flags.index || other.index;
  const extraIndexes = noIndex ? [] : [...(flags.extraIndex ?? other.extraIndexes ?? [])];
  for (const url of [...(index === undefined ? [] : [index]), ...extraIndexes]) checkIndex(url);
  const wheelFolders = [...(flags.wheels ?? other.wheelFolders ?? [])].map((folder) => resolve(folder));
  if (!noIndex && index === undefined && extraIndexes.length === 0 && wheelFolders.length === 0) return undefined;
  return { index, extraIndexes, wheelFolders, noIndex };
}

/** Errors do not repeat the address, which may contain a password. */
function checkIndex(text: string): void {
  const url = URL.parse(text);
  if (url && ['http:', 'https:'].includes(url.protocol) && url.search === '' && url.hash === '') return;
  throw invalid('The package index is not an http or https URL.', 'Name it as in https://pypi.org/simple.');
}

const invalid = (message: string, advice: string) => new CellaError('INVALID_OPTIONS', message, { advice });

interface ConfigFlags {
  /** `--data` and `--config`. */
  readonly data?: string | undefined;
  readonly config?: string | undefined;
}

/** Loads the config file for all later readers of this process's environment. */
export async function loadConfig(flags: ConfigFlags): Promise<ProcessConfig> {
  const variables = await variablesIn(flags);
  if (variables) setConfigDefaults(variables);
  return readProcessConfig();
}

/** The config of a server in this process, without an effect on later readers of this process's environment. */
export async function loadConfigFor(dataDir: string): Promise<ProcessConfig> {
  return readProcessConfig(undefined, await variablesIn({ data: dataDir }));
}

async function variablesIn({ data, config }: ConfigFlags): Promise<Readonly<Record<string, string>> | undefined> {
  const before = readProcessConfig();
  const named = config ?? before.configFile;
  const path = named === undefined ? join(resolveDataDir({ data }, before), 'config.yaml') : resolve(named);
  // Most data folders have no config file, so the parser is not loaded.
  if (named === undefined && !existsSync(path)) return undefined;
  const { readConfig } = await import('./config-file.ts');
  return await readConfig({ path, named: named !== undefined });
}

export interface UnknownVariable {
  readonly name: string;
  /** The most similar setting. */
  readonly meant?: string;
}

const PREFIX = 'CELLA_';
/** The name of the secret in the tool's definition follows. */
const CREDENTIAL = 'CELLA_CREDENTIAL_';
/** Set on an agent's programs in order to find them; a server that an agent starts inherits them. */
const MARKS = new Set(['CELLA_COMMAND', 'CELLA_ENVIRONMENT']);

const known = new Map(
  allSettings.flatMap(({ variable }) => (variable?.startsWith(PREFIX) ? [[bare(variable), variable]] : [])),
);

export function unknownVariables(names: readonly string[]): UnknownVariable[] {
  return names.filter(isUnknown).map((name) => {
    const meant = known.get(suggest(bare(name), [...known.keys()]) ?? '');
    return { name, meant };
  });
}

/** One line for a person. */
export function describeUnknownVariable({ name, meant }: UnknownVariable): string {
  // A name can contain anything except `=`.
  const shown = name.replace(/[^\x21-\x7e]/g, '?').slice(0, 100);
  const guess = meant === undefined ? 'docs/settings.md lists all of them.' : `Did you mean ${meant}?`;
  return `Unknown setting ${shown} (ignored). ${guess}`;
}

function isUnknown(name: string): boolean {
  return name.startsWith(PREFIX) && !known.has(bare(name)) && !name.startsWith(CREDENTIAL) && !MARKS.has(name);
}

function bare(variable: string): string {
  return variable.slice(PREFIX.length).toLowerCase();
}
