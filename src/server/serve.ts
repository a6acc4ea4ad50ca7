/**
 * The life of a server: it takes its data folder, opens what is kept there, listens, and at the end lets running code
 * finish, saves every kernel and tells its clients.
 */

import { join } from 'node:path';
import { openFilesWarning } from '../lib/open-files.ts';
import type { Quotas } from '../protocol/access-models.ts';
import { SOCKET_FILE } from '../protocol/enums.ts';
import { CellaError } from '../protocol/errors.ts';
import type { TokenUsage } from '../protocol/turn.ts';
import { PoolLimits } from '../session/kernel-pool.ts';
import type { GatewaySettings, LogLevel, Privilege } from '../settings/server-config.ts';
import type { Storage } from '../storage/contract.ts';
import { storageMoved } from '../storage/file/file-errors.ts';
import { FileStorage } from '../storage/file/storage.ts';
import { type AccessControl, openAccess } from './access/access-control.ts';
import type { AuditLog } from './access/audit-log.ts';
import { Peers } from './cluster/peers.ts';
import type { EnvironmentKeys } from './credentials/master-key.ts';
import { checkFolderRights, lockFolder, redisAddress, writeServerFile } from './data-folder.ts';
import { ModelService } from './gateway/model-service.ts';
import { HttpServer } from './http/http-server.ts';
import type { HttpLimits, ServerControl } from './http/server-context.ts';
import { type Logger, openLogs } from './logger.ts';
import { type MakeMcp, McpEndpoints } from './mcp-endpoints.ts';
import { ModelMetrics } from './metrics.ts';
import { advertisedHost, checkExposure, publicUrl, readTls } from './network-exposure.ts';
import { KernelQuota } from './quotas/kernel-quota.ts';
import { StorageQuota } from './quotas/storage-quota.ts';
import type { RateOptions } from './request-limits.ts';
import { type AgentOptions, AgentService } from './runners/agent-service.ts';
import { OrphanedFiles } from './sessions/orphaned-files.ts';
import { SessionManager } from './sessions/session-manager.ts';
import type { SessionManagerOptions } from './sessions/session-manager-options.ts';
import { StorageProbe } from './storage-probe.ts';
import { AgentProfiles } from './turns/agent-profiles.ts';
import type { TurnRunner } from './turns/session-turns.ts';
import { storedDataOf } from './user-data.ts';

export interface ServeOptions {
  readonly version: string;
  readonly dataDir: string;
  /** In place of the files in the data folder. Whoever opened it closes it. */
  readonly storage?: Storage | undefined;
  readonly address: string;
  /** 0 for any that is free. Without it, only the user of this process reaches the server, by its socket. */
  readonly port?: number | undefined;
  readonly tls?: { readonly certPath: string; readonly keyPath: string } | undefined;
  /** Without TLS on another address than loopback: a proxy in front speaks it. */
  readonly insecureHttp?: boolean | undefined;
  readonly names?: readonly string[] | undefined;
  /** Where other servers on the same storage reach this one; its own address where nothing is said. */
  readonly advertise?: string | undefined;
  readonly membersMay?: readonly Privilege[] | undefined;
  readonly quotas?: Quotas | undefined;
  /** What credentials are encrypted with, in place of the file `master-key` in the data folder. */
  readonly masterKey?: EnvironmentKeys | undefined;
  /** How agents get to their models. */
  readonly gateway?: GatewaySettings | undefined;
  /** Requests of one token: so many at once, and then so many a second. */
  readonly rates?: { readonly burst: number; readonly perSecond: number } | undefined;
  /** Of wrong credentials, and of those that somebody makes. */
  readonly credentialRates?: RateOptions | undefined;
  readonly limits?: Partial<HttpLimits> | undefined;
  /** Without it, sessions are no MCP servers. */
  readonly mcp?: MakeMcp | undefined;
  /** Of the executors of coding agents. */
  readonly agents?: AgentOptions | undefined;
  /** Of kernels, events and files. */
  readonly hosting?:
    | Omit<
        SessionManagerOptions,
        'storage' | 'dataDir' | 'session' | 'elsewhere' | 'leftovers' | 'agents' | 'admit' | 'refused'
      >
    | undefined;
  /** For every session, beneath its own. */
  readonly session?: SessionManagerOptions['session'] | undefined;
  readonly log: { readonly level: LogLevel; readonly file?: string | undefined };
  /** How long running code has when the server ends. */
  readonly graceMs: number;
  /** How often what has expired is removed: tokens, logins, codes, and the oldest of a long audit log. */
  readonly sweepMs?: number | undefined;
}

export interface ServedFacts {
  readonly url: string;
  readonly dataDir: string;
  readonly adminTokenPath: string;
  readonly socketPath: string;
  /** Works once, and not for long. Browsers reach no socket. */
  readonly loginUrl?: string;
}

const RATES = { burst: 2000, perSecond: 500 };
const SWEEP_MS = 600_000;
/** How often it is looked whether the data folder is still the same. */
const LOOK_MS = 1000;
/** Of a pool that nobody has limited. */
const MOST_KERNELS = PoolLimits.parse({}).maxKernels;

/** Serves until `ended` resolves, and then ends in good order. `onReady` is told where it is. */
export async function serve(...all: Parameters<typeof serveUntil>): Promise<void> {
  try {
    await serveUntil(...all);
  } catch (error) {
    throw asOne(error);
  }
}

async function serveUntil(
  options: ServeOptions,
  ended: Promise<unknown>,
  onReady: (facts: ServedFacts) => void | Promise<void>,
): Promise<void> {
  checkExposure(options);
  const { dataDir, version, graceMs } = options;
  const tls = options.tls && (await readTls(options.tls));
  await checkFolderRights(dataDir);
  await using stack = new AsyncDisposableStack();
  const files = stack.use(await FileStorage.open(dataDir));
  stack.use(await lockFolder(files.locks, dataDir));
  const storage = options.storage ?? files;
  const logs = openLogs(options.log.level, options.log.file);
  stack.defer(() => logs.close());
  const access = stack.use(
    await openAccess({
      ...{ storage, dataDir, quotas: options.quotas },
      ...{ rates: options.rates ?? RATES, credentialRates: options.credentialRates },
    }),
  );
  const { masterKey, gateway: settings } = options;
  const { documents } = storage;
  const counts = new ModelMetrics();
  const onUsage = (_binding: unknown, usage: TokenUsage) => counts.add(usage);
  const models = stack.use(
    new ModelService({ documents, access, dataDir, masterKey, settings, log: logs.log, onUsage }),
  );
  const onLeftover = (left: string, error: unknown) =>
    logs.log.warn({ left, err: error }, 'what a session has left could not be removed yet');
  // Several servers may share a Redis; the files of a folder have one.
  const peers = storage === files ? undefined : stack.use(await Peers.join(storage));
  const shared = peers && {
    elsewhere: () => peers.states(),
    leftovers: new OrphanedFiles({
      documents: files.documents,
      dataDir,
      storage: peers.storageId,
      onFailure: onLeftover,
    }),
  };
  const refused: AuditLog['refused'] = (refusal) => access.audit.refused(refusal);
  let agentService: AgentService | undefined;
  const agents: TurnRunner = {
    run: async (task) => {
      if (!agentService) throw new CellaError('SERVER_STOPPING', 'The server is not there yet.');
      return await (options.agents?.run?.(task) ?? agentService.pool.run(task));
    },
    checkCanRun: async (wish) => {
      if (!options.agents?.run) await agentService?.checkCanRun(wish);
    },
    prestart: async (session, agent) => {
      if (!agentService || options.agents?.run) return false;
      return agentService.pool.prestart(await session.runnerSpec(), agent);
    },
    stop: async (session, why) => await agentService?.pool.stop(session, why),
    deleteSessionData: async (session) => {
      await access.sessionTokens.forgetSession(session);
      await models.usage.forgetSession(session);
    },
  };
  const admit = (ownerId: string, sessions: number) => access.quotas.check(ownerId, { sessions: 1 }, { sessions });
  const hosting = {
    ...options.hosting,
    ...shared,
    admit,
    storage,
    dataDir,
    session: options.session ?? {},
    agents,
    refused,
    onLeftover,
  };
  const host = stack.use(await SessionManager.open(hosting));
  const storageQuota = new StorageQuota({
    quotas: access.quotas,
    checkpoints: storage.checkpoints,
    transcripts: storage.transcripts,
    events: storage.events,
    storedDataOf: (userId) => storedDataOf({ host, storage, dataDir }, userId),
  });
  const { log } = logs;
  const kernels = new KernelQuota(access.quotas, host);
  const profiles = new AgentProfiles(documents);
  const endpoints = options.mcp && new McpEndpoints({ host, access, kernels, storageQuota }, options.mcp);
  const made = stack.use(new AgentService({ dataDir, access, models, endpoints, log }, options.agents));
  agentService = made;
  const socket = join(dataDir, SOCKET_FILE);
  const facts = { pid: process.pid, url: '', socket, version, startedAt: Date.now() };
  const stop = new ShutdownRequest();
  const saved = Promise.withResolvers<CellaError | undefined>();
  const control: ServerControl = {
    facts: () => ({
      ...{ pid: facts.pid, startedAt: facts.startedAt, url: facts.url, dataDir, graceMs },
      storage: options.storage ? 'redis' : 'file',
      maxKernels: options.hosting?.pool?.maxKernels ?? MOST_KERNELS,
    }),
    stop: (soon = graceMs) => stop.request(soon),
    saved: saved.promise,
  };
  const names = [
    ...(options.names ?? []),
    ...(options.advertise === undefined ? [] : [advertisedHost(options.advertise)]),
  ];
  const parts = {
    access,
    models,
    host,
    storageQuota,
    kernels,
    profiles,
    endpoints,
    log,
    tls,
    names,
    peers,
    control,
    probe: new StorageProbe(storage, dataDir),
    codingAgents: () => made.list(),
    agentMetrics: () => ({ runners: made.pool.metrics(), models: counts.numbers }),
    socketPath: socket,
  };
  const server = stack.use(await HttpServer.listen({ ...options, ...parts }));
  const url = publicUrl(server.url, options);
  await peers?.announce({ url: options.advertise ?? url, version, live: () => host.live() });
  facts.url = url;
  if (peers && options.advertise === undefined) {
    log.info({ url }, 'other servers on this Redis reach it here; --advertise names another address');
  }
  stack.use(await writeServerFile(dataDir, { ...facts, holder: files.locks.id, ...redisAddress(storage) }));
  stack.use(sweeping(access, log, options.sweepMs ?? SWEEP_MS));
  let replaced: CellaError | undefined;
  const looking = setInterval(() => {
    if (replaced || files.place !== 'replaced') return;
    // Another server may have this folder by now: this one must not be taken for it.
    replaced = storageMoved(dataDir);
    log.error({ err: replaced }, 'the data folder is another one now');
    stop.request(0);
  }, LOOK_MS).unref();
  stack.defer(() => clearInterval(looking));
  const tooFewFiles = openFilesWarning();
  if (tooFewFiles) log.warn(tooFewFiles);
  log.info({ url, dataDir, version }, 'serving');
  const { adminTokenPath } = access;
  const login = options.port === undefined ? {} : { loginUrl: await loginUrlOf(access, url) };
  await onReady({ url, dataDir, adminTokenPath, socketPath: socket, ...login });
  const patienceMs = await Promise.race([ended.then(() => graceMs), stop.requested]);
  log.info({ graceMs: patienceMs }, 'draining');
  server.stop();
  stop.onHurry(() => void host.drain(0).catch(() => {})); // told by the drain that is under way
  try {
    await host.drain(patienceMs);
    await access.close();
    if (replaced) throw replaced;
    saved.resolve(undefined);
  } catch (error) {
    saved.resolve(asCellaError(error));
    throw error;
  } finally {
    // Not before those who wait for the end know how it went.
    await server.close();
  }
  log.info('ended');
}

/** What failed while things were closed, one after the other, as one error that says each. */
function asOne(error: unknown): unknown {
  if (!(error instanceof SuppressedError)) return error;
  const all = allOf(error);
  const said = [...new Set(all.map(messageOf))];
  // What failed for a session fails for others in the same words.
  const messages = said.filter((one) => !said.some((other) => other !== one && other.includes(one)));
  const first = all.find((one) => one instanceof CellaError);
  const message = `The server has ended, and could not put everything away: ${messages.join(' ')}`;
  return new CellaError(first?.code ?? 'INTERNAL', message, {
    cause: error,
    advice: first?.advice,
  });
}

/** In the order in which they came. */
function allOf(error: unknown): unknown[] {
  return error instanceof SuppressedError ? [...allOf(error.suppressed), ...allOf(error.error)] : [error];
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function asCellaError(error: unknown): CellaError {
  return error instanceof CellaError ? error : new CellaError('INTERNAL', messageOf(error), { cause: error });
}

async function loginUrlOf(access: AccessControl, url: string): Promise<string> {
  const { code } = await access.logins.createCode(access.localAdmin());
  return `${url}/login?code=${encodeURIComponent(code)}`;
}

/** Now and then, what is over is removed. */
function sweeping(access: AccessControl, log: Logger, everyMs: number): Disposable {
  const sweep = () => access.sweep().catch((error) => log.warn({ err: error }, 'sweep'));
  const timer = setInterval(() => void sweep(), everyMs);
  timer.unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

export class ShutdownRequest {
  readonly #asked = Promise.withResolvers<number>();
  #hurry: (() => void) | undefined;

  /** With the grace that the first one gives. */
  get requested(): Promise<number> {
    return this.#asked.promise;
  }

  request(graceMs: number): void {
    this.#asked.resolve(graceMs);
    if (this.#hurry) setTimeout(this.#hurry, graceMs).unref();
  }

  /** From here on the server ends; `hurry` is called when the grace of a later wish is over. */
  onHurry(hurry: () => void): void {
    this.#hurry = hurry;
  }
}
