/** A sandbox for a coding agent: a second one next to the kernel's, for the same user, with the same folders and policy. */

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Executor, type KernelHost, type KernelHostListener, runToEnd } from '../environments/kernel-host.ts';
import type { EnvironmentSandbox } from '../environments/sandbox-environment.ts';
import { CellaError } from '../protocol/errors.ts';
import { AGENT_PATHS, type AgentMounts } from '../sandbox/mount-points.ts';
import { permits } from '../sandbox/sandbox-user.ts';
import { dataFolder } from './data-folders.ts';
import { ExecutorConfig, withExecutorAdvice } from './executor-config.ts';
import { checkOptions, type SessionOptions } from './session-options.ts';
import { acquireExecutor } from './shared-resources.ts';

export interface AgentSandboxOptions {
  /** The options of the session; those only for its kernel are ignored. */
  readonly session: SessionOptions;
  /** The agent key whose workspace the session shares, if it is a fork. */
  readonly workspaceOf?: string | undefined;
  readonly folders: AgentMounts;
  /** Called for each host that was denied by the session's network policy. */
  readonly onDenied?: KernelHostListener['networkDenied'] | undefined;
}

export interface AgentSandbox extends EnvironmentSandbox, AsyncDisposable {
  readonly paths: typeof AGENT_PATHS & { readonly workspace: string; readonly home: string };
  /** The same paths on the host. */
  readonly onHost: { readonly workspace: string; readonly home: string };
  /** The pid, on the host, that everything in it descends from. */
  readonly pid: number;
}

export async function openAgentSandbox(options: AgentSandboxOptions): Promise<AgentSandbox> {
  const checked = checkOptions(options.session);
  return await withExecutorAdvice(checked.executor, async () => {
    const dataDir = dataFolder(checked.dataDir);
    const launch = await ExecutorConfig.prepare(checked, dataDir);
    if (options.workspaceOf !== undefined) launch.useWorkspaceOf(options.workspaceOf, dataDir);
    const { kind } = launch.executorChoice;
    if (kind === 'in-process' || !launch.isolated) throw notIsolated(kind);
    await using undo = new AsyncDisposableStack();
    const { resource: executor, release } = acquireExecutor(launch.executorChoice);
    undo.defer(release);
    const spec = launch.agentSpec(options.folders);
    if (kind === 'container') checkAgentCanRead(options.folders, spec);
    const environment = await executor.open(spec);
    undo.defer(() => environment.close());
    environment.listen({ snapshotLost: () => {}, networkDenied: options.onDenied ?? (() => {}) });
    if (kind === 'container') await requireNode(executor, environment, checked.image);
    const owned = undo.move();
    let closing: Promise<void> | undefined;
    const close = () => {
      closing ??= owned.disposeAsync();
      return closing;
    };
    return {
      kind: kind === 'container' ? 'docker' : 'sandbox',
      paths: { ...AGENT_PATHS, workspace: spec.cwd, home: spec.home },
      onHost: { workspace: launch.cwd, home: launch.home },
      files: { workspace: launch.files, home: launch.homeFiles },
      get pid() {
        return environment.pid;
      },
      get alive() {
        return environment.alive;
      },
      get failure() {
        return environment.failure;
      },
      exec: (program) => environment.exec(program),
      close,
      [Symbol.asyncDispose]: close,
    };
  });
}

function notIsolated(executor: string): CellaError {
  const what = executor === 'in-process' ? 'The executor `in-process`' : 'A session without a sandbox';
  return new CellaError('CAPABILITY_MISSING', `${what} cannot isolate a coding agent.`);
}

const LONGEST_MS = 30_000;
const MOST_WORDS = 4000;

/** Images whose Node was checked. */
const proven = new WeakSet<Executor>();

async function requireNode(executor: Executor, environment: KernelHost, image: string | undefined): Promise<void> {
  if (proven.has(executor)) return;
  const command = {
    argv: [`${AGENT_PATHS.node}/node`, '--version'],
    timeoutMs: LONGEST_MS,
    outputLimitBytes: MOST_WORDS,
  };
  const { exit, stderr } = await runToEnd(environment, command, undefined).catch((error: unknown) => {
    const problem = error instanceof CellaError ? error.details.problem : undefined;
    // If the image lacks the loader that Node needs, nothing starts that could write an error.
    throw typeof problem === 'string' ? unusable(image, problem) : error;
  });
  if (exit.code !== 0) throw unusable(image, stderr.toString().trim().split('\n')[0] || 'it ended without a word');
  proven.add(executor);
}

function unusable(image: string | undefined, words: string): CellaError {
  const which = image === undefined ? 'The default image' : `The image ${image}`;
  const advice =
    image === undefined ? 'build it again with `cella images build`' : 'it needs the libraries of glibc and libstdc++';
  const message = `${which} cannot run a coding agent, because Node does not run in it (${words}): ${advice}.`;
  return new CellaError('IMAGE_UNUSABLE', message, { details: image === undefined ? {} : { image } });
}

interface SandboxOwner {
  readonly uid: number;
  readonly gid: number;
}

const [READ, ENTER] = [4, 5];

/** Checks the folder itself: the files below it get their permissions when the program is installed. */
function checkAgentCanRead({ node, runner, programs }: AgentMounts, user: SandboxOwner): void {
  for (const path of [node, join(node, 'node')]) checkMode(node, path, ENTER, user);
  if (runner !== undefined) {
    checkMode(runner, runner, ENTER, user);
    for (const name of readdirSync(runner)) checkMode(runner, join(runner, name), READ, user);
  }
  if (programs === undefined) return;
  const versions = foldersIn(programs).flatMap((agent) => [agent, ...foldersIn(agent)]);
  for (const folder of [programs, ...versions]) checkMode(programs, folder, ENTER, user);
}

/** `whole`: the folder to make readable. */
function checkMode(whole: string, path: string, wanted: number, user: SandboxOwner): void {
  if (permits(statSync(path), user, wanted)) return;
  throw new CellaError('AGENT_NOT_INSTALLED', `The user that the agent runs as (${user.uid}) cannot read ${path}.`, {
    advice: `It was installed under a restrictive umask. Make it readable: \`chmod -R go+rX ${whole}\`.`,
  });
}

function foldersIn(folder: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .map(({ name }) => join(folder, name));
}
