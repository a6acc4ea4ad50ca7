/** The work of commands at a server. */

import type { ClientSession, SessionInfo, SessionRequest, UseOptions } from '../../client/index.ts';
import { normalizeAgentKey, resolveExecutor } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { KernelInfo } from '../../protocol/kernel-state.ts';
import type { UserNamespacesApi } from '../../session/api.ts';
import { UsageError } from '../command-errors.ts';
import { shellQuote } from '../format.ts';
import type { ExplicitFlag } from '../session-flags.ts';
import {
  type Backend,
  type CheckpointCatalog,
  type CheckpointTarget,
  type NamespaceTarget,
  type OpenOptions,
  readContents,
  type StorageContents,
} from './backend.ts';
import type { ServerConnection } from './find-server.ts';

/** `approve` may return undefined to leave the decision to other clients of the session. */
type RemoteSessionOptions = Omit<OpenOptions, 'approve'> & Pick<UseOptions, 'approve'>;

export class RemoteBackend implements Backend {
  readonly #server: ServerConnection;

  constructor(server: ServerConnection) {
    this.#server = server;
  }

  /** Whether the server uses this command's storage, which can then be read directly. */
  get sameStorage(): boolean {
    return this.#server.sameStorage;
  }

  /** Starts the kernel, so that a slow start is visible. If it fails, the first cell reports why. */
  async openSession(options: OpenOptions): Promise<ClientSession> {
    const { session, state } = await this.#open(options);
    if (state === 'hibernated') await session.variables().catch(() => {});
    return session;
  }

  /** Starts no kernel before the first cell. */
  async openIdleSession(options: RemoteSessionOptions): Promise<ClientSession> {
    return (await this.#open(options)).session;
  }

  async listKernels(): Promise<readonly KernelInfo[]> {
    return await this.#server.client.kernels();
  }

  /** The namespaces of the user at the server, which need no session. */
  async openNamespaces(options: NamespaceTarget): Promise<UserNamespacesApi & AsyncDisposable> {
    rejectServerOnlyFlags(options, this.#server);
    rejectExecutorFlags(options, this.#server);
    const { tools, skills, artifacts, deps } = this.#server.client;
    return { tools, skills, artifacts, deps, [Symbol.asyncDispose]: async () => {} };
  }

  async listStorage(): Promise<StorageContents> {
    return await readContents(this.#server.client);
  }

  async openCheckpoints({ agentKey }: Pick<CheckpointTarget, 'agentKey'>): Promise<CheckpointCatalog> {
    const { checkpoints } = this.#server.client;
    const key = normalizeAgentKey(agentKey);
    return {
      list: () => checkpoints.list(key),
      // The server reports them to its operator.
      damaged: async () => [],
      delete: async (id) => {
        try {
          await checkpoints.delete(key, id);
          return true;
        } catch (error) {
          if (error instanceof CellaError && error.code === 'CHECKPOINT_NOT_FOUND') return false;
          throw error;
        }
      },
    };
  }

  async close(): Promise<void> {
    await this.#server.client.close();
  }

  async #open(options: RemoteSessionOptions): Promise<{ session: ClientSession; state: SessionInfo['state'] }> {
    rejectServerOnlyFlags(options, this.#server);
    const { client, sameMachine } = this.#server;
    const info = await findOrCreate(this.#server, options);
    const { undo = 0, approve, onProgress } = options;
    // The kernel restarts with the same variables, as without a server.
    if (info.settings.undo < undo) await client.sessions.update(info.id, { undo });
    const use: UseOptions = {
      // Code ends with its command. A network may fail for a while; a local connection does not.
      stop: sameMachine ? 'when-gone' : 'when-closed',
      approve,
    };
    const session = await client.session(info.id, use);
    if (options.syncDepsOnStart) await installDeps(session, onProgress);
    return { session, state: info.state };
  }
}

/** Finds the caller's own session by its key. */
async function findOwnSession({ client }: ServerConnection, agentKey: string): Promise<SessionInfo | undefined> {
  const { sessions } = await client.sessions.list({ agentKey, owner: client.me.userId, limit: 1 });
  return sessions[0];
}

async function findOrCreate(reached: ServerConnection, options: RemoteSessionOptions): Promise<SessionInfo> {
  const agentKey = normalizeAgentKey(options.agentKey);
  const there = await findOwnSession(reached, agentKey);
  if (there) {
    checkSessionConflict(options, there);
    return there;
  }
  try {
    return await reached.client.sessions.create({ agentKey, ...toCreateRequest(options) });
  } catch (error) {
    // Another process has created it in the meantime.
    const taken = error instanceof CellaError && error.code === 'SESSION_CONFLICT';
    const made = taken ? await findOwnSession(reached, agentKey) : undefined;
    if (!made) throw error;
    checkSessionConflict(options, made);
    return made;
  }
}

/** A package that cannot be installed is reported, but does not keep code from running. */
async function installDeps(session: ClientSession, onProgress: OpenOptions['onProgress']): Promise<void> {
  const tell = (text: string) => onProgress?.(text);
  const { failed } = await session.deps.sync({ onProgress: tell });
  for (const { requirement, reason } of failed) tell(`${requirement} could not be installed: ${reason}`);
}

/** Flags about how a machine runs code. A server has its own, set at its start. */
const SERVER_ONLY_FLAGS: readonly ExplicitFlag[] = [
  '--python',
  '--tools',
  '--engine',
  '--index',
  '--no-index',
  '--extra-index',
  '--wheels',
];

function rejectServerOnlyFlags({ typed = [] }: NamespaceTarget, { where, sameMachine: here }: ServerConnection): void {
  const mute = typed.find((flag) => SERVER_ONLY_FLAGS.includes(flag));
  if (mute !== undefined) {
    throw new UsageError(
      `${mute} cannot be used with the server ${here ? 'on' : 'at'} ${where}.`,
      'Leave it out here, and set it for `cella serve`, for all sessions of the server.',
    );
  }
  if (here || !typed.includes('--cwd')) return;
  throw new UsageError(
    `--cwd names a folder of this machine, but the code runs at ${where}.`,
    'Leave it out: the code works in the workspace of its session.',
  );
}

/** A user's packages are for the server's Python. A session with another executor installs its own. */
function rejectExecutorFlags({ typed = [] }: NamespaceTarget, { where, sameMachine }: ServerConnection): void {
  const flag = typed.find((one) => one === '--executor' || one === '--image');
  if (flag === undefined) return;
  throw new UsageError(
    `${flag} cannot be used with the server ${sameMachine ? 'on' : 'at'} ${where}, which installs packages for its own Python.`,
    `Leave it out. Code with another executor gets the packages with \`cella run ${flag} … --sync-deps\`.`,
  );
}

/** The request for a new session, including values from variables. */
function toCreateRequest(options: Omit<OpenOptions, 'approve'>): SessionRequest {
  const { cwd, executor, image, sandbox, limits, undo, allowRuntimeDeps } = options;
  return { cwd, executor, image, sandbox: sandbox === 'on' ? undefined : sandbox, limits, undo, allowRuntimeDeps };
}

/** An existing session is used as it is, unless other flags were typed. */
function checkSessionConflict(
  { typed = [], ...options }: Omit<OpenOptions, 'approve'>,
  { id, agentKey, settings }: SessionInfo,
): void {
  const { cwd, executor = 'auto', image, sandbox, limits } = options;
  const has: Partial<Record<ExplicitFlag, boolean>> = {
    '--cwd': settings.cwd === cwd,
    '--executor': resolveExecutor(settings.executor) === resolveExecutor(executor),
    '--image': settings.image === image,
    '--sandbox': (settings.sandbox === 'off') === (sandbox === 'off'),
    '--network': networkKey(settings.sandbox) === networkKey(sandbox),
    '--memory': settings.limits.memoryMb === limits?.memoryMb,
    '--no-runtime-deps': settings.allowRuntimeDeps === false,
  };
  const others = typed.filter((flag) => has[flag] === false);
  if (others.length === 0) return;
  const message = `The session of ${JSON.stringify(agentKey)} was created without ${others.join(' and ')}.`;
  const advice =
    `Leave ${others.length === 1 ? 'it' : 'them'} out to use it as it is, name another --key, ` +
    `or delete it with everything in it: cella sessions delete ${shellQuote(agentKey)}`;
  throw new CellaError('SESSION_CONFLICT', message, { details: { session: id, options: others }, advice });
}

/** The same text for equivalent policies. */
function networkKey(sandbox: OpenOptions['sandbox']): string {
  if (sandbox === 'off') return 'host';
  if (sandbox === 'on') return 'none';
  const { network } = sandbox;
  return typeof network === 'string' ? network : network.allow.toSorted().join();
}
