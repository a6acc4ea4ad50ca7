/** The one file that reads the environment of this process. */

import { homedir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';

export interface Environment {
  /** CELLA_AGENT_KEY: who owns the kernel where no key is given. */
  readonly agentKey: string | undefined;
  /** CELLA_DATA_DIR, else `cella` in XDG_DATA_HOME, else `~/.local/share/cella`. Always absolute. */
  readonly dataDir: string;
  /** CELLA_PYTHON: a path, or a name on PATH. */
  readonly python: string | undefined;
  /** CELLA_STORAGE: `file` or `redis`, as it was written. */
  readonly storage: string | undefined;
  /** CELLA_REDIS: the address of the server, for commands that use Redis. */
  readonly redis: string | undefined;
  /** CELLA_PREFIX: what every key there begins with. */
  readonly prefix: string | undefined;
  /** CELLA_AUTO_SH: `1`, and nothing else, lets a chat run shell commands without asking. */
  readonly autoSh: boolean;
  /** CELLA_MCP_TOKEN: what clients of the MCP server must show. */
  readonly mcpToken: string | undefined;
  /** NO_COLOR: any text in it turns colours off. */
  readonly noColor: boolean;
}

/** A variable that is set to nothing counts as not set. */
export function readEnvironment(env: NodeJS.ProcessEnv = process.env): Environment {
  return {
    agentKey: env.CELLA_AGENT_KEY || undefined,
    dataDir: env.CELLA_DATA_DIR ? resolve(env.CELLA_DATA_DIR) : join(dataHome(env), 'cella'),
    python: env.CELLA_PYTHON || undefined,
    storage: env.CELLA_STORAGE || undefined,
    redis: env.CELLA_REDIS || undefined,
    prefix: env.CELLA_PREFIX || undefined,
    autoSh: env.CELLA_AUTO_SH === '1',
    mcpToken: env.CELLA_MCP_TOKEN || undefined,
    noColor: Boolean(env.NO_COLOR),
  };
}

/** The XDG standard has relative paths ignored. */
function dataHome(env: NodeJS.ProcessEnv): string {
  const named = env.XDG_DATA_HOME;
  if (named && isAbsolute(named)) return named;
  return join(env.HOME || homedir(), '.local', 'share');
}
