/** Opens the environment of a runner: beside the session's kernel, in the same folders, with the same isolation. */

import { join, resolve } from 'node:path';
import type { Environment } from '../../environments/environment.ts';
import { LocalEnvironment } from '../../environments/local/local-environment.ts';
import { SandboxEnvironment } from '../../environments/sandbox-environment.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { AgentName } from '../../protocol/turn.ts';
import { GATEWAY_SOCKET } from '../../sandbox/mount-points.ts';
import type { DeniedAttempt } from '../../sandbox/proxy/allow-list.ts';
import { checkFolderId, resolveFolder } from '../../sandbox/spec.ts';
import { openAgentSandbox } from '../../session/agent-sandbox.ts';
import { dataFolder, ensureKeyFolder } from '../../session/data-folders.ts';
import { folderName } from '../../storage/folder-name.ts';
import { NO_DEBUGGER, type ProgramFolders, programFolder, RUNNER_FILE } from './runner-programs.ts';
import type { RunnerSpec } from './runner-spec.ts';

/** Where the runner of a session runs. Paths are those inside the environment. */
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
    advice: 'Make a session with `executor: "subprocess"` or `"container"`.',
  });
}
