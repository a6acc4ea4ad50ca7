/** Where the programs that run in environments lie on this host: Node, the runner, and the agents that were installed. */

import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { agentProgram } from '../../agents/registry.ts';
import type { AgentName } from '../../protocol/agent/names.ts';
import { CellaError } from '../../protocol/errors.ts';

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
    runner: builtRunner(),
    agents: join(dataDir, 'programs'),
    ...given,
  };
}

/** Beside this file where Cella is built, else where a checkout has built it. */
function builtRunner(): string {
  const beside = fileURLToPath(new URL('../../runner', import.meta.url));
  return existsSync(join(beside, RUNNER_FILE))
    ? beside
    : fileURLToPath(new URL('../../../dist/runner', import.meta.url));
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
