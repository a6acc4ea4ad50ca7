/** A sandbox for a coding agent: a second one beside the kernel's, for the same user, with the same folders and policy. */

import type { FilesRoot } from '../environments/files/session-files.ts';
import type { Executor, KernelHost, ProgramSpec, RunningProgram } from '../environments/kernel-host.ts';
import { runToEnd } from '../environments/run-to-end.ts';
import { CellaError } from '../protocol/errors.ts';
import { AGENT_PATHS, type AgentMounts } from '../sandbox/mount-points.ts';
import { dataFolder } from './data-folders.ts';
import { SandboxConfig, withExecutorAdvice } from './sandbox-config.ts';
import { checkOptions, type SessionOptions } from './session-options.ts';
import { acquireExecutor } from './shared-resources.ts';

export interface AgentEnclosureOptions {
  /** Those of the session; all that is about its kernel alone is not looked at. */
  readonly session: SessionOptions;
  /** The agent whose folder the session works in, where it is a fork. */
  readonly workspaceOf?: string | undefined;
  readonly folders: AgentMounts;
  /** Told of hosts that something in it tried to reach, and that the session's network policy does not allow. */
  readonly onDenied?: KernelHost['onDenied'] | undefined;
}

export interface AgentEnclosure extends AsyncDisposable {
  readonly kind: 'sandbox' | 'docker';
  /** Paths as they are inside. */
  readonly paths: typeof AGENT_PATHS & { readonly workspace: string; readonly home: string };
  /** The same two, on the host. */
  readonly onHost: { readonly workspace: string; readonly home: string };
  /** How their files are reached there. */
  readonly files: { readonly workspace: FilesRoot; readonly home: FilesRoot };
  /** The process, as the host sees it, that everything in here descends from. */
  readonly pid: number;
  /** Whether it can still run a program. */
  readonly alive: boolean;
  /** Why it could not be closed around its first process, if it could not: that may be known only after it was opened. */
  readonly failure: Error | undefined;
  command(program: ProgramSpec): Promise<RunningProgram>;
  /** Ends all that runs in it. */
  close(): Promise<void>;
}

export async function openAgentEnclosure(options: AgentEnclosureOptions): Promise<AgentEnclosure> {
  const checked = checkOptions(options.session);
  return await withExecutorAdvice(checked.executor, async () => {
    const dataDir = dataFolder(checked.dataDir);
    const launch = await SandboxConfig.prepare(checked, dataDir);
    if (options.workspaceOf !== undefined) launch.useWorkspaceOf(options.workspaceOf, dataDir);
    const { kind } = launch.executorChoice;
    if (kind === 'in-process' || !launch.isolated) throw notIsolated(kind);
    await using undo = new AsyncDisposableStack();
    const { executor, giveBack } = acquireExecutor(launch.executorChoice);
    undo.defer(giveBack);
    const { enclosure, spec } = await launch.openForAgent(executor, options.folders);
    undo.defer(() => enclosure.close());
    if (options.onDenied) enclosure.onDenied = options.onDenied;
    if (kind === 'container') await requireNode(executor, enclosure, checked.image);
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
        return enclosure.pid;
      },
      get alive() {
        return enclosure.alive;
      },
      get failure() {
        return enclosure.failure;
      },
      command: (program) => enclosure.exec(program),
      close,
      [Symbol.asyncDispose]: close,
    };
  });
}

function notIsolated(executor: string): CellaError {
  const what = executor === 'in-process' ? 'The executor `in-process`' : 'A session without a sandbox';
  return new CellaError('CAPABILITY_MISSING', `${what} has no place that a coding agent could be kept in.`);
}

const LONGEST_MS = 30_000;
const MOST_WORDS = 4000;

/** One image each. */
const proven = new WeakSet<Executor>();

async function requireNode(executor: Executor, enclosure: KernelHost, image: string | undefined): Promise<void> {
  if (proven.has(executor)) return;
  const command = {
    argv: [`${AGENT_PATHS.node}/node`, '--version'],
    timeoutMs: LONGEST_MS,
    outputLimitBytes: MOST_WORDS,
  };
  const { exitCode, stderr } = await runToEnd(enclosure, command, undefined).catch((error: unknown) => {
    const problem = error instanceof CellaError ? error.details.problem : undefined;
    // Where the loader that Node names is not in the image, nothing starts that could write a word.
    throw typeof problem === 'string' ? unusable(image, problem) : error;
  });
  if (exitCode !== 0) throw unusable(image, stderr.toString().trim().split('\n')[0] || 'it ended without a word');
  proven.add(executor);
}

function unusable(image: string | undefined, words: string): CellaError {
  const which = image === undefined ? 'The default image' : `The image ${image}`;
  const advice =
    image === undefined ? '`cella image build` makes it anew' : 'it needs the libraries of glibc and libstdc++';
  const message = `${which} cannot hold a coding agent, because Node does not run in it (${words}): ${advice}.`;
  return new CellaError('IMAGE_UNUSABLE', message, { details: image === undefined ? {} : { image } });
}
