/** What the server needs to run agents: the runner pool, wired to models, tokens and the sessions' MCP servers. */

import { rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type AgentProgram, findActiveVersion } from '../../agents/installed-programs.ts';
import { agentPrograms, loadAdapter } from '../../agents/registry.ts';
import { ProviderName } from '../../protocol/access-models.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { CodingAgent } from '../../protocol/turn.ts';
import type { AccessControl } from '../access/access-control.ts';
import type { ModelService } from '../gateway/model-service.ts';
import type { Logger } from '../logger.ts';
import type { McpEndpoints } from '../mcp-endpoints.ts';
import type { RunTurn, TurnRunner } from '../turns/session-turns.ts';
import type { AgentRunnerParts } from './agent-runner.ts';
import type { RunnerConnectionParts } from './runner-connection.ts';
import { type OpenRunnerEnvironment, runnerEnvironmentOpener } from './runner-environment.ts';
import { RunnerPool } from './runner-pool.ts';
import { type ProgramFolders, programFolder, programFolders } from './runner-programs.ts';
import { RunnerSettings } from './runner-spec.ts';

/** The folder of runner sockets in the data folder. Only its owner can enter it. */
const SOCKETS_DIR = 'gates';

export interface AgentOptions {
  readonly runners?: Partial<RunnerSettings> | undefined;
  /** Overrides the default folders. */
  readonly programs?: Partial<ProgramFolders> | undefined;
  readonly openEnvironment?: OpenRunnerEnvironment | undefined;
  /** Runs the turns instead of runners. */
  readonly run?: RunTurn | undefined;
  /** Called with the pool when it is created. */
  readonly onPool?: ((pool: RunnerPool) => void) | undefined;
}

export interface AgentServiceParts {
  readonly dataDir: string;
  readonly access: Pick<AccessControl, 'sessionTokens' | 'audit'>;
  readonly models: ModelService;
  /** Without it, agents do not reach the kernels of their sessions. */
  readonly endpoints: McpEndpoints | undefined;
  readonly log: Logger;
}

export class AgentService implements AsyncDisposable {
  readonly pool: RunnerPool;
  readonly #folder: string;
  readonly #models: ModelService;
  /** Undefined if the caller provides the environment or runs the turns. */
  readonly #programs: ProgramFolders | undefined;

  constructor(
    parts: AgentServiceParts,
    { runners = {}, programs = {}, openEnvironment, run, onPool }: AgentOptions = {},
  ) {
    const { access, models, endpoints, log, dataDir } = parts;
    const settings = RunnerSettings.parse(runners);
    this.#models = models;
    const installed = programFolders(dataDir, programs);
    this.#programs = openEnvironment === undefined && run === undefined ? installed : undefined;
    this.#folder = join(dataDir, SOCKETS_DIR);
    // Left by a server that was killed. Only one server uses the data folder.
    rmSync(this.#folder, { recursive: true, force: true });
    const shared: AgentRunnerParts = {
      settings,
      tokens: access.sessionTokens,
      open: openEnvironment ?? runnerEnvironmentOpener(installed),
      sockets: { folder: this.#folder, models: models.gateway.handle },
      mcp:
        ({ info }) =>
        async (request) => {
          if (!endpoints) throw new CellaError('NOT_FOUND', 'This server offers no MCP server for its sessions.');
          const endpoint = await endpoints.of(info, (line) => log.warn({ line, session: info.id }, 'mcp'));
          return await endpoint.fetch(request);
        },
      keyFor: keysOf(models),
      refusalOf: (turn) => models.gateway.refused.take(turn),
      refused: (refusal) => access.audit.refused(refusal),
      log: (runner, line) => log.info({ runner, line }, 'runner'),
    };
    this.pool = new RunnerPool(shared);
    onPool?.(this.pool);
  }

  /** Checked before anything starts, so that errors come from Cella and not from the agent. */
  readonly checkCanRun: TurnRunner['checkCanRun'] = async ({ agent, userId }) => {
    const { provider } = await loadAdapter(agent);
    if (this.#programs) await programFolder(this.#programs, agent);
    await this.#models.credentials.reveal(userId, provider);
  };

  /** All agents, and the installed version that the next turn would use. */
  async list(): Promise<CodingAgent[]> {
    const programs = this.#programs;
    const one = async (program: AgentProgram): Promise<CodingAgent> => {
      const { agent, title } = program;
      if (!programs) return { agent, title, ready: true };
      const used = await findActiveVersion(programs.agents, program);
      return used ? { agent, title, ready: true, version: used.version } : { agent, title, ready: false };
    };
    return await Promise.all(agentPrograms.map(one));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.pool[Symbol.asyncDispose]();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** Undefined if keys stay behind the gateway. */
function keysOf(models: ModelService): RunnerConnectionParts['keyFor'] {
  const { keys, addresses } = models.rules;
  if (keys === 'gateway') return undefined;
  return async ({ turn, token, provider: named, runner }) => {
    const provider = ProviderName.parse(named);
    const { provider: own } = await loadAdapter(turn.agent);
    if (provider !== own) throw new CellaError('FORBIDDEN', `${turn.agent} does not use keys of ${provider}.`);
    const expected = { session: turn.session.id, turn: turn.id, userId: turn.userId, runner };
    const api_key = await models.giveKey({ token, provider, expected });
    return { api_key, base_url: addresses[provider].href };
  };
}
