/** Sets up what the server needs to run agents: the runner pool, connected to models, tokens and the sessions' MCP servers. */

import { rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { type AgentProgram, findActiveVersion } from '../../agents/installed-programs.ts';
import { agentPrograms, loadAdapter } from '../../agents/registry.ts';
import { ProviderName } from '../../protocol/access-models.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { CodingAgent } from '../../protocol/turn.ts';
import type { ServerConfig } from '../../settings/server-config.ts';
import type { AccessControl } from '../access/access-control.ts';
import type { ModelService } from '../gateway/model-service.ts';
import type { McpEndpoints } from '../mcp-endpoints.ts';
import { drainingError } from '../server-control.ts';
import type { RunTurn, TurnRunner } from '../turns/session-turns.ts';
import type { UnreadLimit } from '../unread-limit.ts';
import type { AgentRunnerParts } from './agent-runner.ts';
import type { RunnerConnectionParts } from './runner-connection.ts';
import {
  type OpenRunnerEnvironment,
  type ProgramFolders,
  programFolder,
  programFolders,
  type RunnerSettings,
  runnerEnvironmentOpener,
  runnerTimes,
} from './runner-environment.ts';
import { RunnerPool } from './runner-pool.ts';

/** The folder of runner sockets in the data folder. Only its owner can enter it. */
const SOCKETS_DIR = 'gates';

export interface AgentOptions {
  /** Override those of the configuration. */
  readonly runners?: Partial<RunnerSettings> | undefined;
  /** Overrides the default folders. */
  readonly programs?: Partial<ProgramFolders> | undefined;
  readonly openEnvironment?: OpenRunnerEnvironment | undefined;
  /** Runs the turns instead of runners. */
  readonly run?: RunTurn | undefined;
  /** Called with the pool when it is created. */
  readonly onPool?: ((pool: RunnerPool) => void) | undefined;
}

interface AgentServiceParts {
  readonly config: Pick<ServerConfig, 'dataDir' | 'runners'>;
  readonly access: Pick<AccessControl, 'sessionTokens' | 'audit'>;
  readonly models: ModelService;
  readonly unread: UnreadLimit;
  readonly log: Logger;
}

export class AgentService implements TurnRunner, AsyncDisposable {
  readonly pool: RunnerPool;
  readonly run: RunTurn;
  readonly #access: AgentServiceParts['access'];
  readonly #folder: string;
  readonly #models: ModelService;
  /** Undefined if the caller provides the environment or runs the turns. */
  readonly #programs: ProgramFolders | undefined;
  readonly #runsElsewhere: boolean;
  #endpoints: McpEndpoints | undefined;

  constructor(parts: AgentServiceParts, { runners, programs = {}, openEnvironment, run, onPool }: AgentOptions = {}) {
    const { access, models, log, config, unread } = parts;
    const { dataDir } = config;
    const settings = { ...runnerTimes, ...config.runners, ...runners };
    this.#access = access;
    this.#models = models;
    this.#runsElsewhere = run !== undefined;
    const installed = programFolders(dataDir, programs);
    this.#programs = openEnvironment === undefined && run === undefined ? installed : undefined;
    this.#folder = join(dataDir, SOCKETS_DIR);
    // Left by a server that was killed. Only one server uses the data folder.
    rmSync(this.#folder, { recursive: true, force: true });
    const shared: AgentRunnerParts = {
      settings,
      tokens: access.sessionTokens,
      open: openEnvironment ?? runnerEnvironmentOpener(installed),
      sockets: { folder: this.#folder, models: models.gateway.handle, unread },
      mcp:
        ({ info }) =>
        async (request, { userId }, hold) => {
          if (!this.#endpoints) throw drainingError();
          const warn = (line: string) => log.warn({ line, session: info.id }, 'mcp');
          return await this.#endpoints.answer({ info, request, userId, hold, log: warn });
        },
      keyFor: keysOf(models),
      refusalOf: (turn) => models.gateway.refused.take(turn),
      refused: (refusal) => access.audit.refused(refusal),
      log: (runner, line) => log.info({ runner, line }, 'runner'),
    };
    this.pool = new RunnerPool(shared);
    this.run = run ?? this.pool.run;
    onPool?.(this.pool);
  }

  /** Lets agents use the kernels of their sessions. Sessions exist only after this service. */
  offerMcp(endpoints: McpEndpoints): void {
    this.#endpoints = endpoints;
  }

  /** Checked before anything starts, so that errors come from Cella and not from the agent. */
  readonly checkCanRun: TurnRunner['checkCanRun'] = async ({ agent, userId }) => {
    if (this.#runsElsewhere) return;
    const { provider } = await loadAdapter(agent);
    if (this.#programs) await programFolder(this.#programs, agent);
    await this.#models.credentials.reveal(userId, provider);
  };

  readonly prestart: TurnRunner['prestart'] = async (session, agent) =>
    !this.#runsElsewhere && this.pool.prestart(await session.runnerSpec(), agent);

  async stop(session: string, why: string): Promise<void> {
    await this.pool.stop(session, why);
  }

  async deleteSessionData(session: string): Promise<void> {
    await this.#access.sessionTokens.forgetSession(session);
    await this.#models.usage.forgetSession(session);
  }

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
    const api_key = await models.releaseKey({ token, provider, expected });
    return { api_key, base_url: addresses[provider].href };
  };
}
