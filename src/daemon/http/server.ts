/** The HTTP server: the app on a socket in the data folder, for this machine's own user, and on a TCP port where one is asked for. */

import { chmodSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CellaError } from '../../protocol/errors.ts';
import type { Privilege } from '../../settings/serve-settings.ts';
import type { Access } from '../access/contract.ts';
import { Forwarder } from '../cluster/forwarder.ts';
import type { Peers } from '../cluster/peers.ts';
import type { Models } from '../gateway/models.ts';
import type { SessionHost } from '../sessions/contract.ts';
import type { Profiles } from '../turns/profiles.ts';
import { closeServer, isLoopback, listening, toUrl } from './addresses.ts';
import type { AgentNumbers } from './agent-numbers.ts';
import { makeApp } from './app.ts';
import { Followers } from './followers.ts';
import type { KernelQuota } from './kernel-quota.ts';
import { makeServer } from './listener.ts';
import type { Logger } from './logs.ts';
import type { McpEndpoints } from './mcp-endpoints.ts';
import { HttpMetrics } from './metrics.ts';
import { Routes } from './router.ts';
import { addAccessRoutes } from './routes/access.ts';
import { addAgentRoutes } from './routes/agents.ts';
import { addCredentialRoutes } from './routes/credentials.ts';
import { addEventRoutes } from './routes/events.ts';
import { addExecutionRoutes } from './routes/execution.ts';
import { addFileRoutes } from './routes/files.ts';
import { addMcpRoutes } from './routes/mcp.ts';
import { addNamespaceRoutes } from './routes/namespaces.ts';
import { addPermissionRoutes } from './routes/permissions.ts';
import { addProfileRoutes } from './routes/profiles.ts';
import { addServerRoutes, type ServerLife } from './routes/server.ts';
import { addSessionRoutes } from './routes/sessions.ts';
import { addStateRoutes } from './routes/state.ts';
import { addSystemRoutes } from './routes/system.ts';
import { addTerminalRoutes } from './routes/terminal.ts';
import type { Room, Service, StreamLimits } from './service.ts';

export interface HttpOptions {
  readonly access: Access;
  readonly models: Models;
  readonly host: SessionHost;
  readonly room: Room;
  readonly log: Logger;
  readonly version: string;
  readonly address: string;
  /** 0 for any that is free. Without it, there is the socket alone. */
  readonly port?: number | undefined;
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer } | undefined;
  /** Names that it goes by beside its address. */
  readonly names?: readonly string[] | undefined;
  /** Where its Unix socket is to be. */
  readonly socketPath?: string | undefined;
  readonly membersMay?: readonly Privilege[] | undefined;
  readonly limits?: Partial<HttpLimits> | undefined;
  /** Without it, sessions are no MCP servers. */
  readonly endpoints?: McpEndpoints | undefined;
  readonly kernels: KernelQuota;
  readonly profiles: Profiles;
  readonly codingAgents: Service['codingAgents'];
  readonly life: ServerLife;
  /** What is known of coding agents now. */
  readonly agentNumbers: () => AgentNumbers;
  /** The other servers of the same storage. */
  readonly peers?: Peers | undefined;
}

export interface HttpLimits extends StreamLimits {
  /** Of a body that is JSON. */
  readonly bodyBytes: number;
  /** Of a frame that a client sends. */
  readonly frameBytes: number;
}

const defaults: HttpLimits = {
  bodyBytes: 8 * 1024 * 1024,
  frameBytes: 8 * 1024 * 1024,
  patienceMs: 30_000,
  heartbeatMs: 20_000,
  bufferBytes: 1024 * 1024,
};
/** The longest path that a Unix socket can have. */
const MOST_SOCKET_PATH = 107;

export class HttpServer implements AsyncDisposable {
  readonly #servers: Server[] = [];
  readonly #stopping = new AbortController();
  readonly #ending = new AbortController();
  readonly #options: HttpOptions;
  readonly #fetch: Parameters<typeof makeServer>[0]['fetch'];
  #port: number | undefined;
  #atSocket: string | undefined;
  #closing: Promise<void> | undefined;

  private constructor(options: HttpOptions) {
    this.#options = options;
    this.#fetch = this.#assemble();
  }

  static async listen(options: HttpOptions): Promise<HttpServer> {
    const server = new HttpServer(options);
    try {
      await server.#listen();
      return server;
    } catch (error) {
      await server.close();
      throw error;
    }
  }

  /** As a person on this machine types it; that of a socket is no more than its name. */
  get url(): string {
    const { address, tls, socketPath } = this.#options;
    if (this.#port === undefined) return `unix:${socketPath}`;
    return toUrl({ address, port: this.#port, tls: tls !== undefined });
  }

  /** No new work from here on; clients that follow a session are told. */
  stop(): void {
    this.#stopping.abort();
  }

  /** Ends every connection, after the last answers are out. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #assemble(): Parameters<typeof makeServer>[0]['fetch'] {
    const { access, models, host, room, log, version, address, names = [], membersMay = [] } = this.#options;
    const { bodyBytes, patienceMs, heartbeatMs, bufferBytes } = this.#limits;
    const metrics = new HttpMetrics(host, this.#options.agentNumbers);
    const { peers } = this.#options;
    const app = makeApp({ hosts: { loopback: isLoopback(address), names }, log, metrics, hops: peers?.hops });
    const ending = this.#ending.signal;
    const { adminTokenPath } = access;
    const sockets = { patienceMs, bufferBytes, ending };
    const forwarder = peers && new Forwarder({ peers, host, adminTokenPath, sockets });
    ending.addEventListener('abort', () => forwarder?.[Symbol.dispose]());
    const stopping = this.#stopping.signal;
    const routes = new Routes(app, {
      access,
      host,
      bodyLimitBytes: bodyBytes,
      stopping: () => stopping.aborted,
      forwarder,
    });
    const streams = { patienceMs, heartbeatMs, bufferBytes };
    const service: Service = {
      routes,
      access,
      models,
      host,
      forwarder,
      metrics,
      followers: new Followers(metrics),
      kernels: this.#options.kernels,
      profiles: this.#options.profiles,
      codingAgents: this.#options.codingAgents,
      room,
      streams,
      membersMay,
      version,
      stopping,
      ending,
    };
    addSessionRoutes(service);
    addExecutionRoutes(service);
    addEventRoutes(service);
    addPermissionRoutes(service);
    addStateRoutes(service);
    addFileRoutes(service);
    addTerminalRoutes(service);
    addNamespaceRoutes(service);
    if (this.#options.endpoints) addMcpRoutes(service, this.#options.endpoints);
    addAgentRoutes(service);
    addProfileRoutes(service);
    addAccessRoutes(service);
    addCredentialRoutes(service);
    addServerRoutes(service, this.#options.life);
    addSystemRoutes(service);
    return (request, bindings) => app.fetch(request, bindings);
  }

  async #listen(): Promise<void> {
    const { address, port, tls, socketPath, log } = this.#options;
    if (port !== undefined) {
      const network = this.#make('network', tls);
      await listening(network, () => network.listen(port, address), `${address}:${port}`);
      this.#port = (network.address() as AddressInfo).port;
    }
    if (socketPath === undefined) return;
    if (Buffer.byteLength(socketPath) > MOST_SOCKET_PATH) {
      const problem = 'the data folder has too long a path for a socket in it';
      if (port === undefined) throw new CellaError('INVALID_OPTIONS', `dataDir: ${problem}.`);
      log.warn({ socketPath }, problem);
      return;
    }
    // Whoever runs on this data folder alone may remove what an earlier daemon has left.
    rmSync(socketPath, { force: true });
    const local = this.#make('local');
    // Made so that nobody else can open it, not even for the moment until its mode is set.
    const before = process.umask(0o177);
    const bound = listening(local, () => local.listen(socketPath), socketPath);
    process.umask(before);
    await bound;
    this.#atSocket = socketPath;
    chmodSync(socketPath, 0o600);
  }

  #make(door: 'network' | 'local', tls?: HttpOptions['tls']): Server {
    const { log } = this.#options;
    const onError = (error: unknown) => log.debug({ err: error }, 'a request that cannot be read');
    const server = makeServer({ door, fetch: this.#fetch, frameLimitBytes: this.#limits.frameBytes, tls, onError });
    this.#servers.push(server);
    return server;
  }

  get #limits(): HttpLimits {
    return { ...defaults, ...this.#options.limits };
  }

  async #close(): Promise<void> {
    this.#stopping.abort();
    this.#ending.abort();
    await Promise.all(this.#servers.map(closeServer));
    if (this.#atSocket !== undefined) rmSync(this.#atSocket, { force: true });
  }
}
