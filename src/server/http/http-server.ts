/** The HTTP server: listens on a Unix socket in the data folder and, if configured, on a TCP port. */

import { once } from 'node:events';
import { chmodSync, lstatSync, renameSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { CellaError } from '../../protocol/errors.ts';
import { buildApp, type Fetch } from './app.ts';
import { createNodeServer } from './node-adapter.ts';
import type { ServerContext } from './server-context.ts';

/** The maximum length of a Unix socket path. */
const MOST_SOCKET_PATH = 107;

interface ListenOptions {
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer } | undefined;
  /** The path for its Unix socket. */
  readonly socketPath: string;
}

export class HttpServer implements AsyncDisposable {
  readonly #servers: Server[] = [];
  readonly #context: ServerContext;
  readonly #options: ListenOptions;
  readonly #fetch: Fetch;
  #port: number | undefined;
  #atSocket: { readonly path: string; readonly inode: number } | undefined;
  #closing: Promise<void> | undefined;

  private constructor(context: ServerContext, options: ListenOptions) {
    this.#context = context;
    this.#options = options;
    this.#fetch = buildApp(context);
  }

  static async listen(context: ServerContext, options: ListenOptions): Promise<HttpServer> {
    const server = new HttpServer(context, options);
    try {
      await server.#listen();
      return server;
    } catch (error) {
      await server.close();
      throw error;
    }
  }

  /** The URL to use on this machine. For a Unix socket it is only a label. */
  get url(): string {
    const { tls, socketPath } = this.#options;
    if (this.#port === undefined) return `unix:${socketPath}`;
    return toUrl({ address: this.#context.config.host, port: this.#port, tls: tls !== undefined });
  }

  /** Ends every connection once its last response is sent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #listen(): Promise<void> {
    const { log, config } = this.#context;
    const { tls, socketPath } = this.#options;
    const { host, port } = config;
    if (port !== undefined) {
      const network = this.#make('network', tls);
      await startListening(network, () => network.listen(port, host), `${host}:${port}`);
      this.#port = (network.address() as AddressInfo).port;
    }
    if (Buffer.byteLength(socketPath) > MOST_SOCKET_PATH) {
      const problem = 'the data folder has too long a path for a socket in it';
      if (port === undefined) throw new CellaError('INVALID_OPTIONS', `dataDir: ${problem}.`);
      log.warn({ socketPath }, problem);
      return;
    }
    // This server holds the data folder's lock, so it may remove an earlier server's socket.
    rmSync(socketPath, { force: true });
    const local = this.#make('local');
    // The umask keeps other users out even before the mode is set.
    const before = process.umask(0o177);
    // Listen under a temporary name: on close, Node removes the name it listened on, which may be another server's by then.
    const partial = join(dirname(socketPath), `d.${process.pid}`);
    rmSync(partial, { force: true });
    const bound = startListening(local, () => local.listen(partial), socketPath);
    process.umask(before);
    await bound;
    chmodSync(partial, 0o600);
    renameSync(partial, socketPath);
    this.#atSocket = { path: socketPath, inode: lstatSync(socketPath).ino };
  }

  #make(listener: 'network' | 'local', tls?: ListenOptions['tls']): Server {
    const { log, limits, metrics, unread } = this.#context;
    const onError = (error: unknown) => log.debug({ err: error }, 'a request that cannot be read');
    const server = createNodeServer({
      listener,
      fetch: this.#fetch,
      frameLimitBytes: limits.frameBytes,
      slowClientTimeoutMs: limits.slowClientTimeoutMs,
      unread,
      onSlow: () => metrics.dropped('slow'),
      tls,
      onError,
    });
    this.#servers.push(server);
    return server;
  }

  async #close(): Promise<void> {
    this.#context.control.close();
    await Promise.all(this.#servers.map(closeGracefully));
    const { path, inode } = this.#atSocket ?? {};
    if (path !== undefined && lstatSync(path, { throwIfNoEntry: false })?.ino === inode) rmSync(path, { force: true });
  }
}

/** How long clients have to read the last responses. */
const LAST_WORDS_MS = 2000;
/** How often idle connections are closed during shutdown. */
const IDLE_MS = 20;

/** The URL to use on this machine. */
function toUrl({ address, port, tls }: { address: string; port: number; tls: boolean }): string {
  const anywhere = address === '0.0.0.0' || address === '::';
  const name = anywhere ? '127.0.0.1' : address.includes(':') ? `[${address}]` : address;
  return `${tls ? 'https' : 'http'}://${name}:${port}`;
}

async function startListening(server: Server, listen: () => unknown, where: string): Promise<void> {
  const ready = once(server, 'listening');
  listen();
  await ready.catch((cause: NodeJS.ErrnoException) => {
    throw new CellaError('INVALID_OPTIONS', `The server cannot listen at ${where}: ${problemOf(cause)}.`, { cause });
  });
}

function problemOf({ code, message }: NodeJS.ErrnoException): string {
  switch (code) {
    case 'EADDRINUSE':
      return 'another program uses it. End that program, or choose another port with --port; 0 picks a free one';
    case 'EACCES':
      return 'this user has no permission. Choose a port above 1023 with --port';
    case 'EADDRNOTAVAIL':
      return 'this machine has no such address. Choose another with --host';
    default:
      return message;
  }
}

async function closeGracefully(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, 'close');
  server.close();
  server.closeIdleConnections();
  // Connections that were busy a moment ago stay open as keep-alive.
  const idle = setInterval(() => server.closeIdleConnections(), IDLE_MS);
  const late = setTimeout(() => server.closeAllConnections(), LAST_WORDS_MS);
  await closed;
  clearInterval(idle);
  clearTimeout(late);
}
