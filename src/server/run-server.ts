/**
 * Runs a server: locks the data folder, opens the storage and listens. At shutdown it lets running code finish, saves every
 * kernel and notifies its clients.
 */

import { join } from 'node:path';
import { missingPythonWarning } from '../interpreter/find-python.ts';
import { messageOf } from '../lib/values.ts';
import { SOCKET_FILE } from '../protocol/enums.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ServerConfig } from '../settings/server-config.ts';
import type { Storage } from '../storage/contract.ts';
import { storageMoved } from '../storage/file/file-errors.ts';
import { FileStorage } from '../storage/file/file-storage.ts';
import { openRedis } from '../storage/open-storage.ts';
import { type AccessControl, openAccess } from './access/access-control.ts';
import { Peers } from './cluster/peers.ts';
import { SessionForwarder } from './cluster/session-forwarder.ts';
import { checkFolderRights, lockFolder, redisAddress, writeServerFile } from './data-folder.ts';
import { ModelService } from './gateway/model-service.ts';
import { HttpServer } from './http/http-server.ts';
import { RequestAudit } from './http/request-audit.ts';
import { defaultLimits, type HttpLimits, type ServerContext } from './http/server-context.ts';
import { openLogs } from './logger.ts';
import { type MakeMcp, McpEndpoints } from './mcp-endpoints.ts';
import { ModelMetrics, ServerMetrics } from './metrics.ts';
import { StorageQuota, storedDataOf } from './quotas/storage-quota.ts';
import { KernelQuota } from './quotas/user-quotas.ts';
import { Followers, type RateOptions } from './request-limits.ts';
import { type AgentOptions, AgentService } from './runners/agent-service.ts';
import { ServerControl } from './server-control.ts';
import { OrphanedFiles } from './sessions/session-deletion.ts';
import { SessionManager } from './sessions/session-manager.ts';
import type { SessionManagerOptions } from './sessions/session-types.ts';
import { checkExposure, openFilesWarning, publicUrl, readTls } from './startup-checks.ts';
import { StorageProbe } from './storage-probe.ts';
import { AgentProfiles } from './turns/agent-profiles.ts';
import { UnreadLimit } from './unread-limit.ts';

/** What a program passes to a server in addition to settings. All but the first three are for tests. */
export interface ServerParts {
  readonly version: string;
  /** Replaces the configured storage. The caller that opened it closes it. */
  readonly storage?: Storage | undefined;
  /** The secrets of tools. */
  readonly credentials?: NonNullable<SessionManagerOptions['session']>['credentials'];
  /** For every session, beneath its own settings. */
  readonly session?: SessionManagerOptions['session'] | undefined;
  readonly mcp?: MakeMcp | undefined;
  readonly agents?: AgentOptions | undefined;
  /** Of kernels, events and files. */
  readonly hosting?: Partial<SessionManagerOptions> | undefined;
  readonly limits?: Partial<HttpLimits> | undefined;
  /** Requests of one token: so many at once, and then so many a second. */
  readonly rates?: RateOptions | undefined;
  /** Limits wrong credentials, and the creation of new ones. */
  readonly credentialRates?: RateOptions | undefined;
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

const SWEEP_MS = 600_000;
/** How often it is checked whether the data folder is still the same. */
const FOLDER_CHECK_MS = 1000;
/** How many requests may come at once, for each that may come in a second. */
const BURST = 4;

/** Serves until `ended` resolves, then shuts down cleanly. Calls `onReady` with the address. */
export async function serve(...all: Parameters<typeof serveUntil>): Promise<void> {
  try {
    await serveUntil(...all);
  } catch (error) {
    throw asOneError(error);
  }
}

async function serveUntil(
  config: ServerConfig,
  parts: ServerParts,
  ended: Promise<unknown>,
  onReady: (facts: ServedFacts) => void | Promise<void>,
): Promise<void> {
  checkExposure(config);
  const { dataDir, graceMs } = config;
  const tls = await readTls(config);
  await checkFolderRights(dataDir);
  await using stack = new AsyncDisposableStack();
  const files = stack.use(await FileStorage.open(dataDir));
  stack.use(await lockFolder(files.locks, dataDir));
  const storage = parts.storage ?? (config.redis ? stack.use(await openRedis(config.redis)) : files);
  const context = await openContext({ config, parts, files, storage, stack });
  const { access, sessions, control, peers, log, version } = context;

  const socketPath = join(dataDir, SOCKET_FILE);
  const server = stack.use(await HttpServer.listen(context, { tls, socketPath }));
  const url = publicUrl(server.url, config);
  control.listening(url);
  await peers?.announce({ url: config.advertise ?? url, version, live: () => sessions.live() });
  if (peers && config.advertise === undefined) {
    log.info({ url }, 'other servers on this Redis reach this server here; --advertise sets another address');
  }
  const facts = { pid: process.pid, url, socket: socketPath, version, startedAt: control.startedAt };
  stack.use(await writeServerFile(dataDir, { ...facts, holder: files.locks.id, ...redisAddress(storage) }));
  stack.use(sweepRegularly(context, parts.sweepMs ?? SWEEP_MS));
  const folder = stack.use(new ServedFolder(files, context));

  const tooFewFiles = openFilesWarning();
  if (tooFewFiles) log.warn(tooFewFiles);
  // Not awaited: servers that only use containers need no Python.
  void missingPythonWarning(config.python).then((noPython) => noPython && log.warn(noPython));
  log.info({ url, dataDir, version }, 'serving');
  const { adminTokenPath } = access;
  const login = config.port === undefined ? {} : { loginUrl: await loginUrlOf(access, url) };
  await onReady({ url, dataDir, adminTokenPath, socketPath, ...login });

  const graceLeftMs = await Promise.race([ended.then(() => graceMs), control.requested]);
  log.info({ graceMs: graceLeftMs }, 'draining');
  control.drain(() => void sessions.drain(0).catch(() => {})); // the running drain reports it
  try {
    await sessions.drain(graceLeftMs);
    await access.close();
    folder.check();
    control.reportSaved();
  } catch (error) {
    control.reportSaved(asCellaError(error));
    throw error;
  } finally {
    // Close only after clients that wait for the end have the outcome.
    await server.close();
  }
  log.info('ended');
}

interface ContextParts {
  readonly config: ServerConfig;
  readonly parts: ServerParts;
  readonly files: FileStorage;
  readonly storage: Storage;
  readonly stack: AsyncDisposableStack;
}

/** Opened in reverse order of closing: agents close before sessions, sessions before models, access and logs. */
async function openContext({ config, parts, files, storage, stack }: ContextParts): Promise<ServerContext> {
  const { dataDir } = config;
  const { documents } = storage;
  const control = new ServerControl();
  const limits = { ...defaultLimits, ...parts.limits };
  const logs = openLogs(config.logLevel, config.logFile);
  stack.defer(() => logs.close());
  const { log } = logs;
  const rates = parts.rates ?? { perSecond: config.rate, burst: config.rate * BURST };
  const { credentialRates } = parts;
  const access = stack.use(await openAccess({ storage, dataDir, quotas: config.quotas, rates, credentialRates }));
  const counts = new ModelMetrics();
  const models = stack.use(
    new ModelService({
      documents,
      access,
      dataDir,
      masterKey: config.masterKey,
      settings: config.gateway,
      log,
      onUsage: (_binding, usage) => counts.add(usage),
    }),
  );
  // Several servers may share a Redis; the files of a folder have one.
  const peers = storage === files ? undefined : stack.use(await Peers.join(storage));
  const unread = new UnreadLimit(limits.unreadBytes);
  const agents = new AgentService({ config, access, models, unread, log }, parts.agents);
  const onLeftover = (left: string, error: unknown) =>
    log.warn({ left, err: error }, 'files of a deleted session could not be removed yet');
  const { python, packages, toolFolders, allowRuntimeDeps, idleMs, retention, flushResults } = config;
  const sessions = stack.use(
    await SessionManager.open({
      pool: { maxKernels: config.maxKernels },
      ...{ idleMs, retention, flushResults },
      ...parts.hosting,
      storage,
      dataDir,
      session: { python, packages, toolFolders, allowRuntimeDeps, credentials: parts.credentials, ...parts.session },
      agents,
      elsewhere: peers && (() => peers.states()),
      leftovers:
        peers &&
        new OrphanedFiles({ documents: files.documents, dataDir, storage: peers.storageId, onFailure: onLeftover }),
      onLeftover,
      admit: (ownerId, sessions) => access.quotas.check(ownerId, { sessions: 1 }, { sessions }),
      refused: (refusal) => access.audit.refused(refusal),
    }),
  );
  stack.use(agents);
  const storageQuota = new StorageQuota({
    quotas: access.quotas,
    checkpoints: storage.checkpoints,
    transcripts: storage.transcripts,
    events: storage.events,
    storedDataOf: (userId) => storedDataOf({ sessions, storage, dataDir }, userId),
  });
  const kernels = new KernelQuota(access.quotas, sessions);
  const endpoints = new McpEndpoints({ sessions, access, kernels, storageQuota, unread }, parts);
  agents.offerMcp(endpoints);
  const metrics = new ServerMetrics(
    sessions,
    () => ({ runners: agents.pool.metrics(), models: counts.numbers }),
    access.audit,
  );
  const { draining, closing } = control;
  const { adminTokenPath } = access;
  const sockets = { ...limits, closing };
  const forwarder = peers && new SessionForwarder({ peers, sessions, adminTokenPath, sockets });
  return {
    ...{ config, version: parts.version, log, control, draining, closing, limits },
    ...{ storage, access, models, agents, sessions, endpoints, peers, forwarder },
    ...{ kernels, storageQuota, profiles: new AgentProfiles(documents), probe: new StorageProbe(storage, dataDir) },
    ...{
      metrics,
      requestAudit: new RequestAudit(access.audit),
      followers: new Followers(limits.followers, (kind) => metrics.client(kind)),
      unread,
    },
  };
}

/** Ends the server if its data folder is replaced: another server may have the new one, and this one must not be taken for it. */
class ServedFolder implements Disposable {
  readonly #timer: NodeJS.Timeout;
  #replaced: CellaError | undefined;

  constructor(files: FileStorage, { config: { dataDir }, control, log }: ServerContext) {
    this.#timer = setInterval(() => {
      if (this.#replaced || files.location !== 'replaced') return;
      this.#replaced = storageMoved(dataDir);
      log.error({ err: this.#replaced }, 'the data folder was replaced');
      control.request(0);
    }, FOLDER_CHECK_MS).unref();
  }

  /** Throws if it was replaced. */
  check(): void {
    if (this.#replaced) throw this.#replaced;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** Periodically removes what has expired. */
function sweepRegularly({ access, log }: ServerContext, everyMs: number): Disposable {
  const sweep = () => access.sweep().catch((error) => log.warn({ err: error }, 'sweep'));
  const timer = setInterval(() => void sweep(), everyMs).unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

async function loginUrlOf(access: AccessControl, url: string): Promise<string> {
  const { code } = await access.logins.createCode(access.localAdmin());
  return `${url}/login?code=${encodeURIComponent(code)}`;
}

/** Joins the errors of closing several parts into one error that names each. */
function asOneError(error: unknown): unknown {
  if (!(error instanceof SuppressedError)) return error;
  const all = allOf(error);
  const said = [...new Set(all.map(messageOf))];
  // Several sessions may fail with the same message.
  const messages = said.filter((one) => !said.some((other) => other !== one && other.includes(one)));
  const first = all.find((one) => one instanceof CellaError);
  const message = `The server has ended, but could not save everything: ${messages.join(' ')}`;
  return new CellaError(first?.code ?? 'INTERNAL', message, { cause: error, advice: first?.advice });
}

/** In the order of their occurrence. */
function allOf(error: unknown): unknown[] {
  return error instanceof SuppressedError ? [...allOf(error.suppressed), ...allOf(error.error)] : [error];
}

function asCellaError(error: unknown): CellaError {
  return error instanceof CellaError ? error : new CellaError('INTERNAL', messageOf(error), { cause: error });
}
