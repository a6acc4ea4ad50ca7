/** Sessions, namespaces and checkpoints at a server, for commands. */

import type { ClientSession, SessionInfo, SessionRequest, UseOptions } from '../../client/index.ts';
import { resolveExecutor } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { DepsApi, NamespacesApi } from '../../session/api.ts';
import { UsageError } from '../command-errors.ts';
import type { CheckpointCatalog, NamespaceTarget, OpenOptions, StorageContents } from '../context.ts';
import { shellQuote } from '../format.ts';
import type { ExplicitFlag } from '../session-flags.ts';
import type { ServerConnection } from './find-server.ts';

/** `approve` may return undefined, to leave the answer to other clients of the session. */
type RemoteSessionOptions = Omit<OpenOptions, 'approve'> & Pick<UseOptions, 'approve'>;

export async function openRemoteSession(
  reached: ServerConnection,
  options: RemoteSessionOptions,
  { startKernel = false } = {},
): Promise<ClientSession> {
  rejectServerOnlyFlags(options, reached);
  const { client, sameMachine: here } = reached;
  const info = await findOrCreate(reached, options);
  const { undo = 0, approve, onProgress } = options;
  // Its kernel begins again with the same names, as it would without a server.
  if (info.settings.undo < undo) await client.sessions.update(info.id, { undo });
  const use: UseOptions = {
    // Code ends with its command. A network may fail for a while, and a process of this machine does not.
    stop: here ? 'when-gone' : 'when-closed',
    approve,
  };
  const session = await client.session(info.id, use);
  if (options.syncDepsOnStart) await installDeps(session, onProgress);
  // Here a slow start is visible. If it fails, the first cell says why.
  if (startKernel && info.state === 'hibernated') await session.variables().catch(() => {});
  return session;
}

/** The caller's own, by its key. */
async function findOwnSession({ client }: ServerConnection, agentKey: string): Promise<SessionInfo | undefined> {
  const { sessions } = await client.sessions.list({ agentKey, owner: client.me.userId, limit: 1 });
  return sessions[0];
}

/** As a session takes it: a blank key is `default`. */
function normalizeAgentKey(agentKey = ''): string {
  return agentKey.trim() === '' ? 'default' : agentKey;
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
    // Another process created it meanwhile.
    const taken = error instanceof CellaError && error.code === 'SESSION_CONFLICT';
    const made = taken ? await findOwnSession(reached, agentKey) : undefined;
    if (!made) throw error;
    checkSessionConflict(options, made);
    return made;
  }
}

/** A package that cannot be installed is reported, and does not keep code from running. */
async function installDeps(session: ClientSession, onProgress: OpenOptions['onProgress']): Promise<void> {
  const tell = (text: string) => onProgress?.(text);
  const { failed } = await session.deps.sync({ onProgress: tell });
  for (const { requirement, reason } of failed) tell(`${requirement} could not be installed: ${reason}`);
}

type DisposableNamespaces = NamespacesApi & AsyncDisposable;

/** Namespaces are changed through the session of the agent, which is created if there is none. */
export async function openRemoteNamespaces(
  reached: ServerConnection,
  options: NamespaceTarget,
): Promise<DisposableNamespaces> {
  const wanted = { sandbox: 'on', ...options } as const;
  rejectServerOnlyFlags(wanted, reached);
  const there = await findOwnSession(reached, normalizeAgentKey(options.agentKey));
  return there
    ? await openRemoteSession(reached, wanted)
    : createLazyNamespaces(reached, () => openRemoteSession(reached, wanted));
}

/** The server on the data folder changes the packages, so that its live kernels find them; the rest needs no kernel. */
export function withRemoteDeps(
  reached: ServerConnection,
  options: NamespaceTarget,
  local: DisposableNamespaces,
): DisposableNamespaces {
  const change = async <T>(work: (deps: DepsApi) => Promise<T>): Promise<T> => {
    await using session = await openRemoteNamespaces(reached, options);
    return await work(session.deps);
  };
  const deps: DepsApi = {
    list: () => local.deps.list(),
    status: () => local.deps.status(),
    add: (requirements, work) => change((there) => there.add(requirements, work)),
    remove: (name, work) => change((there) => there.remove(name, work)),
    sync: (work) => change((there) => there.sync(work)),
  };
  const { tools, skills, artifacts } = local;
  return { tools, skills, artifacts, deps, [Symbol.asyncDispose]: () => local[Symbol.asyncDispose]() };
}

export async function listRemoteStorage(reached: ServerConnection, options: NamespaceTarget): Promise<StorageContents> {
  await using session = await openRemoteNamespaces(reached, options);
  const nameOf = ({ name }: { readonly name: string }) => name;
  return {
    tools: (await session.tools.list()).map(nameOf),
    skills: (await session.skills.list()).map(nameOf),
    artifacts: (await session.artifacts.list()).map(({ name, size }) => ({ name, size })),
    deps: await session.deps.list(),
  };
}

/** An agent without a session gets one; what is no agent has no checkpoints. */
export function openRemoteCheckpoints(
  reached: ServerConnection,
  { agentKey, ...place }: NamespaceTarget,
): CheckpointCatalog {
  const key = normalizeAgentKey(agentKey);
  const open = async () => {
    const there = await findOwnSession(reached, key);
    const known = there !== undefined || (await reached.client.kernels()).some((agent) => agent.agentKey === key);
    return known ? await openRemoteSession(reached, { ...place, agentKey: key, sandbox: 'on' }) : undefined;
  };
  return {
    list: async () => {
      await using session = await open();
      return ((await session?.checkpoints()) ?? []).filter(({ kind }) => kind === 'durable');
    },
    // They are reported to the operator of the server.
    damaged: async () => [],
    delete: async (id) => {
      await using session = await open();
      try {
        await session?.deleteCheckpoint(id);
        return session !== undefined;
      } catch (error) {
        if (error instanceof CellaError && error.code === 'CHECKPOINT_NOT_FOUND') return false;
        throw error;
      }
    },
  };
}

function createLazyNamespaces(
  { client }: ServerConnection,
  make: () => Promise<ClientSession>,
): NamespacesApi & AsyncDisposable {
  let making: Promise<ClientSession> | undefined;
  const made = () => {
    making ??= make();
    return making;
  };
  return {
    tools: {
      list: async () => (await client.namespaces('tools')).tools,
      problems: async () => (await client.namespaces('tools')).toolProblems,
      search: async (query, options) => (await made()).tools.search(query, options),
      describe: async (name) => (await made()).tools.describe(name),
      add: async (yaml, options) => (await made()).tools.add(yaml, options),
      remove: async (name) => (await made()).tools.remove(name),
      call: async (name, named, options) => (await made()).tools.call(name, named, options),
    },
    skills: {
      list: async () => (await client.namespaces('skills')).skills,
      problems: async () => (await client.namespaces('skills')).skillProblems,
      get: async (name) => (await made()).skills.get(name),
      search: async (query, options) => (await made()).skills.search(query, options),
      create: async (skill, options) => (await made()).skills.create(skill, options),
      delete: async (name) => (await made()).skills.delete(name),
    },
    artifacts: {
      list: async () => (await client.namespaces('artifacts')).artifacts,
      get: async (name) => (await made()).artifacts.get(name),
      exists: async (name) => (await made()).artifacts.exists(name),
      save: async (name, content, facts) => (await made()).artifacts.save(name, content, facts),
      load: async (name) => (await made()).artifacts.load(name),
      delete: async (name) => (await made()).artifacts.delete(name),
    },
    deps: {
      list: async () => (await client.namespaces('deps')).deps,
      status: async () => (await made()).deps.status(),
      add: async (requirements, options) => (await made()).deps.add(requirements, options),
      remove: async (name, options) => (await made()).deps.remove(name, options),
      sync: async (options) => (await made()).deps.sync(options),
    },
    [Symbol.asyncDispose]: async () => {
      await (await making?.catch(() => undefined))?.close(); // whoever wanted it was told
    },
  };
}

/** They say how a machine runs code. A server got them when it was started. */
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
      'Leave it out: give it to `cella serve`, for all sessions of the server.',
    );
  }
  if (here || !typed.includes('--cwd')) return;
  throw new UsageError(
    `--cwd names a folder of this machine, and the code runs at ${where}.`,
    'Leave it out: the code works in the workspace of its session.',
  );
}

/** For a session that is made: with what variables say, too. */
function toCreateRequest(options: Omit<OpenOptions, 'approve'>): SessionRequest {
  const { cwd, executor, image, sandbox, limits, undo, allowRuntimeDeps } = options;
  return {
    cwd,
    executor,
    image,
    ...(sandbox === 'on' ? {} : { sandbox }),
    limits,
    undo,
    allowRuntimeDeps,
  };
}

/** One that is there is used as it is, unless something else was typed. */
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
    `Leave ${others.length === 1 ? 'it' : 'them'} out to use it as it is, name another --agent, ` +
    `or delete it with everything in it: cella sessions delete ${shellQuote(agentKey)}`;
  throw new CellaError('SESSION_CONFLICT', message, { details: { session: id, options: others }, advice });
}

/** In words that are the same for what is the same. */
function networkKey(sandbox: OpenOptions['sandbox']): string {
  if (sandbox === 'off') return 'host';
  if (sandbox === 'on') return 'none';
  const { network } = sandbox;
  return typeof network === 'string' ? network : network.allow.toSorted().join();
}
