/** Server: a server inside a program, with everything that `cella serve` has. Heavy parts load when a server is opened. */

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Client } from '../client/client.ts';
import type { ClientSession, UseOptions } from '../client/client-session.ts';
import type { SessionRequest } from '../client/resources.ts';
import { packageVersion } from '../interpreter/package-file.ts';
import { SOCKET_FILE } from '../protocol/enums.ts';
import { CellaError } from '../protocol/errors.ts';
import { parseOptions } from '../protocol/parse.ts';
import type { StorageLocation } from '../protocol/server-info.ts';
import { dataFolder } from '../session/data-folders.ts';
import { SessionOptions } from '../session/session-options.ts';
import { loadConfigFor, readCredential, resolvePackages, resolveStorage } from '../settings/process-config.ts';
import { resolveServerConfig, type ServerConfig, shapeOf } from '../settings/server-config.ts';
import { logLevels, serverSettings } from '../settings/settings-table.ts';
import type { Storage } from '../storage/contract.ts';
import type { ServerParts } from './run-server.ts';

const { dataDir, storage, python, packages, toolFolders, credentials } = SessionOptions.shape;
// An embedded server listens only on this machine, so settings for addresses and TLS do not apply.
const { host, insecureHttp, advertise, tlsCert, tlsKey, logLevel, ...ownSettings } = serverSettings;

/** The settings of a server under their names, without those for addresses and TLS. */
export const ServerOptions = z.strictObject({
  ...shapeOf(ownSettings),
  logLevel: z.enum(logLevels).default('silent'),
  dataDir,
  /** Replaces the files in the data folder. The caller that opened it closes it. */
  storage,
  python,
  packages: packages.unwrap().optional(),
  toolFolders: toolFolders.unwrap().optional(),
  credentials,
  /** Encrypts stored keys: 64 hexadecimal digits, or 32 bytes in base64. */
  masterKey: z.string().min(1).optional(),
});

/** The options as a caller passes them. */
export type ServerOptions = z.input<typeof ServerOptions>;

/** How long a server that starts or ends beside this one has until it is reached, or gone. */
const OPEN_TIMEOUT_MS = 15_000;
const RETRY_MS = 50;

export class Server implements AsyncDisposable {
  readonly dataDir: string;
  /** Whether the server runs in this process. If another server had the data folder, this is that one, with its own options. */
  readonly own: boolean;
  /** The client for sessions, credentials, users and rules. */
  readonly client: Client;
  readonly #stack: AsyncDisposableStack;

  private constructor(dataDir: string, own: boolean, client: Client, stack: AsyncDisposableStack) {
    this.dataDir = dataDir;
    this.own = own;
    this.client = client;
    this.#stack = stack;
  }

  /** Connects to the server of the data folder, or starts one in this process. */
  static async open(options: ServerOptions = {}): Promise<Server> {
    const { config, parts } = await resolveOptions(options);
    const { dataDir } = config;
    const [{ compareStorage, findLocalServer }, { connect }] = await Promise.all([
      import('../client/local-server.ts'),
      import('../client/client.ts'),
    ]);
    const deadline = performance.now() + OPEN_TIMEOUT_MS;
    for (;;) {
      await using stack = new AsyncDisposableStack();
      const found = await findLocalServer(config);
      if (found) {
        stack.use(found.client);
        return new Server(dataDir, false, found.client, stack.move());
      }
      try {
        stack.use(await start(config, parts));
      } catch (error) {
        // Another server has the folder: it will listen soon, or is about to end. One with another storage stays.
        const isTaken = error instanceof CellaError && error.code === 'SERVER_RUNNING';
        const mayRetry = isTaken && performance.now() < deadline && (await compareStorage(config)) !== 'other';
        if (!mayRetry) throw error;
        await sleep(RETRY_MS);
        continue;
      }
      const client = stack.use(await connect({ socket: join(dataDir, SOCKET_FILE) }));
      return new Server(dataDir, true, client, stack.move());
    }
  }

  /** The session of this agent key, created if there is none. */
  async session(request: SessionRequest = {}, use: UseOptions = {}): Promise<ClientSession> {
    return await this.client.open(request, use);
  }

  /**
   * Shuts down the server that it has started: running code gets its grace period, kernels are saved. A server of another
   * process keeps running.
   */
  async close(): Promise<void> {
    await this.#stack.disposeAsync();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

interface ResolvedOptions {
  readonly config: ServerConfig;
  readonly parts: ServerParts;
}

async function resolveOptions(options: ServerOptions): Promise<ResolvedOptions> {
  const { dataDir: named, storage, credentials, packages, ...given } = parseOptions(ServerOptions, options);
  const dataDir = dataFolder(named);
  const environment = await loadConfigFor(dataDir);
  const location = storage ? locationOf(dataDir, storage) : resolveStorage({}, { ...environment, dataDir });
  const settings = {
    ...given,
    ...location,
    python: given.python ?? environment.python,
    toolFolders: given.toolFolders ?? environment.toolFolders,
    packages: packages ?? resolvePackages({}, environment),
  };
  const config = {
    ...resolveServerConfig(settings, environment.variables),
    ...{ host: '127.0.0.1', insecureHttp: false, advertise: undefined, tlsCert: undefined, tlsKey: undefined },
    // Other servers on the same Redis reach this one by a port.
    port: given.port ?? (location.redis ? 0 : undefined),
  };
  const ofEnvironment = async (name: string) => readCredential(name);
  return { config, parts: { version: packageVersion(), storage, credentials: credentials ?? ofEnvironment } };
}

function locationOf(dataDir: string, storage: Storage): StorageLocation {
  const config = storage.toBootstrapConfig();
  if (config.type === 'redis') return { dataDir, redis: { url: config.url, prefix: config.prefix } };
  throw new CellaError('INVALID_OPTIONS', 'storage: the files of a server are in its data folder; set dataDir.');
}

/** Resolves when the server answers. */
async function start(config: ServerConfig, parts: ServerParts): Promise<AsyncDisposable> {
  const { serve } = await import('./run-server.ts');
  const [ready, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const over = serve(config, parts, ended.promise, () => ready.resolve());
  await Promise.race([ready.promise, over]);
  return {
    [Symbol.asyncDispose]: async () => {
      ended.resolve();
      await over;
    },
  };
}
