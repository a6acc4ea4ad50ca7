/** Where the programs that run in environments lie on this host: Node, the runner, and the agents that were installed. */

import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { agentProgram } from '../../agents/registry.ts';
import type { AgentName } from '../../protocol/agent/names.ts';
import { CellaError } from '../../protocol/errors.ts';
import { packageFile } from '../../sandbox/home.ts';

export const RUNNER_FILE = 'cella-runner.mjs';

export interface Programs {
  /** The folder of the binary `node`. */
  readonly node: string;
  /** The folder of the runner's one file. */
  readonly runner: string;
  /** `<agent>/<version>` for each that `cella agents install` has brought. */
  readonly agents: string;
}

export function programsOf(dataDir: string, given: Partial<Programs> = {}): Programs {
  return {
    node: dirname(process.execPath),
    runner: packageFile('dist/runner'),
    agents: join(dataDir, 'programs'),
    ...given,
  };
}

/** The folder of an agent below that of all agents; `AGENT_NOT_INSTALLED` where there is none. */
export function programFolder({ agents }: Programs, agent: AgentName): string {
  const { version, packageName, title } = agentProgram(agent);
  const folder = join(agent, version);
  if (existsSync(join(agents, folder, 'node_modules', packageName, 'package.json'))) return folder;
  throw new CellaError('AGENT_NOT_INSTALLED', `${title} ${version} is not installed on this server.`, {
    advice: `Install it with \`cella agents install ${agent}\`.`,
    details: { agent, version },
  });
}
