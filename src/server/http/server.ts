/** The HTTP server: the app on a socket in the data folder, for this machine's own user, and on a TCP port where one is asked for. */

import { chmodSync, lstatSync, renameSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { CellaError } from '../../protocol/errors.ts';
import { closeServer, listening, toUrl } from './addresses.ts';
import { assemble } from './assemble.ts';
import { makeServer } from './listener.ts';
import { defaultLimits, type HttpLimits, type HttpOptions } from './options.ts';

/** The longest path that a Unix socket can have. */
const MOST_SOCKET_PATH = 107;

export class HttpServer implements AsyncDisposable {
  readonly #servers: Server[] = [];
  readonly #stopping = new AbortController();
  readonly #ending = new AbortController();
  readonly #options: HttpOptions;
  readonly #fetch: Parameters<typeof makeServer>[0]['fetch'];
  #port: number | undefined;
  #atSocket: { readonly path: string; readonly inode: number } | undefined;
  #closing: Promise<void> | undefined;

  private constructor(options: HttpOptions) {
    this.#options = options;
    this.#fetch = assemble(options, { stopping: this.#stopping.signal, ending: this.#ending.signal });
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
    // Under another name: Node removes what has the name that it was given, also if that is another server's by then.
    const partial = join(dirname(socketPath), `d.${process.pid}`);
    rmSync(partial, { force: true });
    const bound = listening(local, () => local.listen(partial), socketPath);
    process.umask(before);
    await bound;
    chmodSync(partial, 0o600);
    renameSync(partial, socketPath);
    this.#atSocket = { path: socketPath, inode: lstatSync(socketPath).ino };
  }

  #make(door: 'network' | 'local', tls?: HttpOptions['tls']): Server {
    const { log } = this.#options;
    const onError = (error: unknown) => log.debug({ err: error }, 'a request that cannot be read');
    const server = makeServer({ door, fetch: this.#fetch, frameLimitBytes: this.#limits.frameBytes, tls, onError });
    this.#servers.push(server);
    return server;
  }

  get #limits(): HttpLimits {
    return { ...defaultLimits, ...this.#options.limits };
  }

  async #close(): Promise<void> {
    this.#stopping.abort();
    this.#ending.abort();
    await Promise.all(this.#servers.map(closeServer));
    const { path, inode } = this.#atSocket ?? {};
    if (path !== undefined && lstatSync(path, { throwIfNoEntry: false })?.ino === inode) rmSync(path, { force: true });
  }
}
