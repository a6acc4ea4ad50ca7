/** The one file that reads the environment of this process. */

import { homedir } from 'node:os';
import { delimiter, isAbsolute, join, resolve } from 'node:path';

export interface Environment {
  /** CELLA_AGENT_KEY: who owns the kernel where no key is given. */
  readonly agentKey: string | undefined;
  /** CELLA_DATA_DIR, else `cella` in XDG_DATA_HOME, else `~/.local/share/cella`. Always absolute. */
  readonly dataDir: string;
  /** CELLA_PYTHON: a path, or a name on PATH. */
  readonly python: string | undefined;
  /** CELLA_EXECUTOR: where code runs, as it was written. */
  readonly executor: string | undefined;
  /** CELLA_IMAGE: the image, for commands that run code in containers. */
  readonly image: string | undefined;
  /** CELLA_ENGINE, else DOCKER_HOST: the address of the container engine. */
  readonly engine: string | undefined;
  /** CELLA_STORAGE: `file` or `redis`, as it was written. */
  readonly storage: string | undefined;
  /** CELLA_REDIS: the address of the server, for commands that use Redis. */
  readonly redis: string | undefined;
  /** CELLA_PREFIX: what every key there begins with. */
  readonly prefix: string | undefined;
  /** CELLA_INDEX, CELLA_EXTRA_INDEX (separated by blanks), CELLA_WHEELS (folders, by colons) and CELLA_NO_INDEX=1. */
  readonly packages: {
    readonly index?: string;
    readonly extraIndexes?: string[];
    readonly wheelFolders?: string[];
    readonly noIndex?: boolean;
  };
  /** CELLA_TOOLS: folders with definitions of tools, separated by colons. */
  readonly toolFolders: readonly string[] | undefined;
  /** CELLA_AUTO_SH: `1`, and nothing else, lets a chat run shell commands without asking. */
  readonly autoSh: boolean;
  /** CELLA_MCP_TOKEN: what clients of the MCP server must show. */
  readonly mcpToken: string | undefined;
  /** CELLA_HOST and CELLA_PORT: where a server listens. */
  readonly serveHost: string | undefined;
  readonly servePort: string | undefined;
  /** CELLA_MEMBERS_MAY: what members of a server may ask for, separated by commas. */
  readonly membersMay: string | undefined;
  /** CELLA_LOG_LEVEL: of a server. */
  readonly logLevel: string | undefined;
  /** CELLA_URL and CELLA_TOKEN: a server to be asked, and who asks. */
  readonly serverUrl: string | undefined;
  readonly serverToken: string | undefined;
  /** XDG_RUNTIME_DIR: where a user's own programs put their sockets. */
  readonly runtimeDir: string | undefined;
  /** PATH: where programs of the host are looked up. */
  readonly searchPath: string;
  /** HOME: the folder of whoever runs this process. */
  readonly home: string;
  /** NO_COLOR: any text in it turns colours off. */
  readonly noColor: boolean;
}

/** A variable that is set to nothing counts as not set. */
export function readEnvironment(env: NodeJS.ProcessEnv = process.env): Environment {
  return {
    agentKey: env.CELLA_AGENT_KEY || undefined,
    dataDir: env.CELLA_DATA_DIR ? resolve(env.CELLA_DATA_DIR) : join(dataHome(env), 'cella'),
    python: env.CELLA_PYTHON || undefined,
    executor: env.CELLA_EXECUTOR || undefined,
    image: env.CELLA_IMAGE || undefined,
    engine: env.CELLA_ENGINE || env.DOCKER_HOST || undefined,
    storage: env.CELLA_STORAGE || undefined,
    redis: env.CELLA_REDIS || undefined,
    prefix: env.CELLA_PREFIX || undefined,
    packages: packagesOf(env),
    toolFolders: list(env.CELLA_TOOLS, delimiter)?.map((folder) => resolve(folder)),
    autoSh: env.CELLA_AUTO_SH === '1',
    mcpToken: env.CELLA_MCP_TOKEN || undefined,
    serveHost: env.CELLA_HOST || undefined,
    servePort: env.CELLA_PORT || undefined,
    membersMay: env.CELLA_MEMBERS_MAY || undefined,
    logLevel: env.CELLA_LOG_LEVEL || undefined,
    serverUrl: env.CELLA_URL || undefined,
    serverToken: env.CELLA_TOKEN || undefined,
    runtimeDir: env.XDG_RUNTIME_DIR && isAbsolute(env.XDG_RUNTIME_DIR) ? env.XDG_RUNTIME_DIR : undefined,
    searchPath: env.PATH ?? '',
    home: env.HOME || homedir(),
    noColor: Boolean(env.NO_COLOR),
  };
}

function packagesOf(env: NodeJS.ProcessEnv): Environment['packages'] {
  const extraIndexes = list(env.CELLA_EXTRA_INDEX, /\s+/);
  const wheelFolders = list(env.CELLA_WHEELS, delimiter);
  return {
    ...(env.CELLA_INDEX ? { index: env.CELLA_INDEX } : {}),
    ...(extraIndexes ? { extraIndexes } : {}),
    ...(wheelFolders ? { wheelFolders } : {}),
    ...(env.CELLA_NO_INDEX === '1' ? { noIndex: true } : {}),
  };
}

/** Undefined where there is nothing in it. */
function list(text: string | undefined, separator: string | RegExp): string[] | undefined {
  const parts = (text ?? '').split(separator).filter((part) => part !== '');
  return parts.length === 0 ? undefined : parts;
}

/** The XDG standard has relative paths ignored. */
function dataHome(env: NodeJS.ProcessEnv): string {
  const named = env.XDG_DATA_HOME;
  if (named && isAbsolute(named)) return named;
  return join(env.HOME || homedir(), '.local', 'share');
}

/** The secret of that name: CELLA_CREDENTIAL_ and the name in capitals, with `_` for what a variable cannot hold. */
export function readCredential(name: string, env: NodeJS.ProcessEnv = process.env): string | undefined {
  return env[`CELLA_CREDENTIAL_${name.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}`] || undefined;
}
