/**
 * A runner's environment: its programs, its specification, how to open it next to the session's kernel with the same folders
 * and isolation, and the profile and conversation of each turn in it.
 */

import { dirname, join, resolve } from 'node:path';
import { activeProgram, programsDir } from '../../agents/installed-programs.ts';
import { agentProgram } from '../../agents/registry.ts';
import { type Environment, type FileWritten, writeMissingFiles } from '../../environments/environment.ts';
import { LocalEnvironment } from '../../environments/local/local-environment.ts';
import { SandboxEnvironment } from '../../environments/sandbox-environment.ts';
import { packageFile } from '../../interpreter/package-file.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import type { AgentName } from '../../protocol/turn.ts';
import { GATEWAY_SOCKET } from '../../sandbox/mount-points.ts';
import { checkFolderId, checkFoldersAnswer, resolveFolder } from '../../sandbox/named-folders.ts';
import type { DeniedAttempt } from '../../sandbox/proxy/proxy.ts';
import { openAgentSandbox } from '../../session/agent-sandbox.ts';
import { dataFolder, ensureKeyFolder } from '../../session/data-folders.ts';
import type { SessionOptions } from '../../session/session-options.ts';
import type { ServerConfig } from '../../settings/server-config.ts';
import { folderName } from '../../storage/validation.ts';
import { fingerprint } from '../sessions/idempotency.ts';
import type { RunnerTurn } from '../turns/session-turn.ts';
import type { RunnerConnection } from './runner-connection.ts';

/** The settings of all runners: the operator's, and timings that only tests change. */
export type RunnerSettings = ServerConfig['runners'] & {
  /** How often to ping a runner, and how long it may take to answer or to send a part of a transcript. */
  readonly pingEveryMs: number;
  readonly pingMs: number;
  /** The time between TERM and KILL. */
  readonly graceMs: number;
};

export const runnerTimes = { pingEveryMs: 15_000, pingMs: 15_000, graceMs: 2000 };

/** The session of a runner, and the options for creating the runner. */
export interface RunnerSpec {
  readonly info: SessionInfo;
  /** For an environment next to the kernel's. */
  readonly options: SessionOptions;
  /** For a fork: the agent key whose workspace it uses. */
  readonly workspaceOf?: string | undefined;
  /** Logs a denied network access in the runner's environment, with the running turn. */
  onNetworkDenied(attempt: DeniedAttempt, turn: string | undefined): void;
}

const RUNNER_FILE = 'cella-runner.mjs';
/** On SIGUSR1, Node would open its debugger on a port that every local user can connect to. */
const NO_DEBUGGER = '--disable-sigusr1';

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

/** The environment of a session's runner. Paths are as seen inside. */
export interface RunnerEnvironment {
  readonly environment: Environment;
  /** The program and its first arguments. */
  readonly runner: readonly string[];
  readonly cwd: string;
  readonly homeDir: string;
  /** Throws `AGENT_NOT_INSTALLED`. */
  programDir(agent: AgentName): Promise<string>;
  /** The socket to the host. */
  readonly gatewaySocket: string;
}

/** `gateway`: the host folder with that socket. `onDenied`: called for denied network access. */
export type OpenRunnerEnvironment = (
  spec: RunnerSpec,
  gateway: string,
  onDenied: (attempt: DeniedAttempt) => void,
) => Promise<RunnerEnvironment>;

/** A sandbox for subprocesses, Docker for containers, and local only if the session has no sandbox. */
export function runnerEnvironmentOpener(programs: ProgramFolders): OpenRunnerEnvironment {
  return async (spec, gateway, onDenied) => {
    const { executor, sandbox } = spec.info.settings;
    if (executor === 'in-process') throw noEnvironment();
    if (executor !== 'container' && sandbox === 'off') return await openLocal(spec, gateway, programs);
    return await openSandboxed(spec, { gateway, onDenied }, programs);
  };
}

/** Whether an agent there can use the whole network of the machine. */
export function hasNetwork({ info: { settings } }: Pick<RunnerSpec, 'info'>): boolean {
  const { executor, sandbox } = settings;
  if (sandbox === 'off') return executor !== 'container';
  return typeof sandbox === 'object' && sandbox.network === 'host';
}

interface EnvironmentAccess {
  readonly gateway: string;
  readonly onDenied: Parameters<OpenRunnerEnvironment>[2];
}

async function openSandboxed(
  spec: RunnerSpec,
  { gateway, onDenied }: EnvironmentAccess,
  programs: ProgramFolders,
): Promise<RunnerEnvironment> {
  const { options: session, workspaceOf } = spec;
  const { node, runner, agents } = programs;
  const folders = { node, runner, programs: agents, gateway };
  const first = await openAgentSandbox({ session, workspaceOf, folders, onDenied });
  // The runner ends with its first sandbox, so none is opened after it.
  const environment = await SandboxEnvironment.create({ open: async () => first });
  const { paths } = first;
  return {
    environment,
    runner: [join(paths.node, 'node'), NO_DEBUGGER, join(paths.runner, RUNNER_FILE)],
    cwd: paths.workspace,
    homeDir: paths.home,
    programDir: async (agent) => join(paths.programs, await programFolder(programs, agent)),
    gatewaySocket: paths.socket,
  };
}

async function openLocal(
  { options, workspaceOf }: RunnerSpec,
  gateway: string,
  programs: ProgramFolders,
): Promise<RunnerEnvironment> {
  await checkFoldersAnswer({ cwd: options.cwd });
  const dataDir = dataFolder(options.dataDir);
  const { path: own } = ensureKeyFolder(
    join(dataDir, 'agents', folderName(workspaceOf ?? options.agentKey ?? '')),
    false,
  );
  const named = options.cwd === undefined ? undefined : resolveFolder(resolve(options.cwd), 'cwd', dataDir, 'refused');
  if (named !== undefined) checkFolderId(named, options.folderIds?.[named]);
  const cwd = named ?? join(own, 'workspace');
  const home = join(own, 'home');
  const environment = await LocalEnvironment.create({ kind: 'local', workspace: cwd, home, app: programs.runner });
  return {
    environment,
    runner: [process.execPath, NO_DEBUGGER, join(programs.runner, RUNNER_FILE)],
    cwd,
    homeDir: home,
    programDir: async (agent) => join(programs.agents, await programFolder(programs, agent)),
    gatewaySocket: join(gateway, GATEWAY_SOCKET),
  };
}

function noEnvironment(): CellaError {
  return new CellaError('CAPABILITY_MISSING', 'Agents cannot work in a session with the executor `in-process`.', {
    advice: 'Create a session with `executor: "subprocess"` or `"container"`.',
  });
}

/** How many unwritable files a notice names. */
const MOST_NAMED = 5;

/** Writes the agent's profile and conversation before a turn, and saves the conversation after it. One per runner. */
export class ConversationSync {
  readonly #environment: RunnerEnvironment;
  readonly #connection: RunnerConnection;
  readonly #settings: RunnerSettings;
  /** A digest of the agent and profile that were last written, to skip identical ones. */
  #prepared: string | undefined;

  constructor(environment: RunnerEnvironment, connection: RunnerConnection, settings: RunnerSettings) {
    this.#environment = environment;
    this.#connection = connection;
    this.#settings = settings;
  }

  /** Writes the profile, and the conversation unless the agent has a newer one. Returns the conversation to continue. */
  async prepare(turn: RunnerTurn): Promise<string | undefined> {
    const { agent, profile, signal } = turn;
    const stored = turn.conversation === undefined ? undefined : await turn.readTranscript(turn.conversation);
    const conversation = stored ? turn.conversation : await this.#existing(turn);
    const wanted = fingerprint(agent, profile);
    const isEmpty = Object.keys(profile).length === 0 && conversation === undefined;
    if (this.#prepared === wanted || (this.#prepared === undefined && isEmpty)) return conversation;
    const files = await writeMissingFiles(this.#environment.environment, profile);
    const transcript = stored && conversation !== undefined ? { ...stored, conversation } : undefined;
    await this.#connection.setupSession(turn, transcript, { timeoutMs: this.#settings.startMs, signal });
    this.#prepared = wanted;
    await reportMissing(files, turn);
    return conversation;
  }

  /** Saves the conversation as the agent has it now. */
  async save(turn: RunnerTurn, conversation: string): Promise<void> {
    // Also of a turn that was stopped.
    const text = await this.#connection.readTranscript(turn, conversation, { timeoutMs: this.#settings.pingMs });
    if (text === undefined) return;
    await turn.saveTranscript(conversation, text);
    // The agent has it from now on.
    this.#prepared ??= fingerprint(turn.agent, turn.profile);
  }

  /** A killed agent may have named a conversation without writing it. */
  async #existing(turn: RunnerTurn): Promise<string | undefined> {
    const { conversation, signal } = turn;
    if (conversation === undefined) return undefined;
    const options = { timeoutMs: this.#settings.pingMs, signal };
    const text = await this.#connection.readTranscript(turn, conversation, options);
    return text === undefined ? undefined : conversation;
  }
}

/** Tells the user which files are missing; the agent works without them. */
async function reportMissing(files: readonly FileWritten[], turn: RunnerTurn): Promise<void> {
  const reasons = files.flatMap((file) => (file.ok ? [] : [file.error.message]));
  if (reasons.length === 0) return;
  const count = reasons.length === 1 ? 'One file' : `${reasons.length} files`;
  const text = `${count} of the profile could not be written to the workspace: ${reasons.slice(0, MOST_NAMED).join(' ')}`;
  await turn.emit({ type: 'agent_notice', turn: turn.id, text: text.toWellFormed() });
}
