/** Where the programs that run in environments are on this host: Node, the runner and the installed agents. */

import { dirname, join } from 'node:path';
import { activeProgram, programsDir } from '../../agents/installed-programs.ts';
import { agentProgram } from '../../agents/registry.ts';
import { packageFile } from '../../interpreter/package-file.ts';
import type { AgentName } from '../../protocol/turn.ts';

export const RUNNER_FILE = 'cella-runner.mjs';
/** At SIGUSR1, Node would open its debugger on a port that every local user can connect to. */
export const NO_DEBUGGER = '--disable-sigusr1';

export interface ProgramFolders {
  /** The folder of the binary `node`. */
  readonly node: string;
  /** The folder of the runner's one file. */
  readonly runner: string;
  /** `<agent>/<version>` for each installed agent. */
  readonly agents: string;
}

export function programFolders(dataDir: string, given: Partial<ProgramFolders> = {}): ProgramFolders {
  return {
    node: dirname(process.execPath),
    runner: packageFile('dist/runner'),
    agents: programsDir(dataDir),
    ...given,
  };
}

/** The path of the active version, relative to `agents`. Throws `AGENT_NOT_INSTALLED`. */
export async function programFolder({ agents }: ProgramFolders, agent: AgentName): Promise<string> {
  const { version } = await activeProgram(agents, agentProgram(agent));
  return join(agent, version);
}
