/**
 * The only way out of a sandbox with an allow-list: an HTTP proxy on a Unix socket, in a folder that only this sandbox sees.
 *
 * All input is hostile. The proxy connects only to listed hosts, each by an address that it resolved and checked itself. It
 * does not inspect the data in tunnels. Of the attempts that it denies, it reports some; repeated ones and floods are only
 * counted.
 */

import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { chmodSync, mkdirSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { BoundedMap } from '../../lib/bounded-map.ts';
import { listenInFolder } from '../../lib/listen-in-folder.ts';
import { TokenBucket } from '../../lib/token-bucket.ts';
import type { NetworkDeniedEvent } from '../../protocol/execution-events.ts';
import { type NetworkTarget, parseTarget } from '../../protocol/network-hosts.ts';
import { PROXY_SOCKET } from '../mount-points.ts';
import { AllowList, NameLookups, type ResolveName } from './allow-list.ts';
import {
  ambiguity,
  busyResponse,
  deniedResponse,
  forward,
  joinSockets,
  malformedResponse,
  otherHost,
  type ProxyResponse,
  readProxyRequest,
  respond,
  respondRaw,
  unreachableResponse,
  unresolvedResponse,
} from './forward.ts';

interface ProxyOptions {
  readonly allow: readonly string[];
  /** Created if missing. Its parent folder controls access to it. */
  readonly folder: string;
  readonly resolve?: ResolveName;
  readonly limits?: Partial<ProxyLimits>;
}

interface ProxyLimits {
  readonly connections: number;
  readonly headerBytes: number;
  /** From the connection to the end of the request's headers. */
  readonly headersMs: number;
  /** Closes a connection without traffic in either direction for this long. */
  readonly idleMs: number;
  readonly resolveMs: number;
  /** Name lookups at once, for all sessions. Node uses half of its threads for them, by default two of four. */
  readonly lookups: number;
}

const LIMITS: ProxyLimits = {
  connections: 128,
  headerBytes: 16_384,
  headersMs: 10_000,
  idleMs: 600_000,
  resolveMs: 10_000,
  lookups: 1,
};
const KEEP_ALIVE_MS = 5000;

export class NetworkProxy {
  /** Called for attempts that the list does not allow. */
  onDenied: (attempt: DeniedAttempt) => void = () => {};
  readonly #list: AllowList;
  readonly #limits: ProxyLimits;
  readonly #server: Server;
  readonly #denials = new DenialReports();
  readonly #open = new Set<Socket>();
  #closed = false;

  private constructor({ allow, folder, resolve = resolveHere, limits = {} }: ProxyOptions) {
    this.#limits = { ...LIMITS, ...limits };
    const lookups = new NameLookups(resolve, { ...this.#limits, waiting: this.#limits.connections });
    this.#list = new AllowList(allow, (name) => lookups.find(name));
    mkdirSync(folder, { recursive: true });
    // The sandbox may be another user, so the umask must not apply.
    chmodSync(folder, 0o755);
    this.#server = this.#makeServer();
  }

  static async open(options: ProxyOptions): Promise<NetworkProxy> {
    const proxy = new NetworkProxy(options);
    try {
      await listenInFolder(proxy.#server, options.folder, PROXY_SOCKET);
      return proxy;
    } catch (error) {
      proxy.close();
      throw error;
    }
  }

  /** Closes every connection. Idempotent. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#server.close();
    for (const socket of this.#open) socket.destroy();
  }

  #makeServer(): Server {
    const { connections, headerBytes, headersMs, idleMs } = this.#limits;
    const server = createServer({
      maxHeaderSize: headerBytes,
      headersTimeout: headersMs,
      connectionsCheckingInterval: Math.min(1000, headersMs),
      requestTimeout: 0,
      keepAliveTimeout: KEEP_ALIVE_MS,
      insecureHTTPParser: false,
    });
    server.maxConnections = connections;
    // No limit: Node would drop the headers past it, and they would not be checked.
    server.maxHeadersCount = 0;
    server.timeout = idleMs;
    server.on('connection', (socket: Socket) => this.#hold(socket));
    server.on('request', (request, response) => void this.#pass(request, response));
    server.on('connect', (request, socket, head) => void this.#tunnel(request, socket, head));
    server.unref();
    return server;
  }

  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const passage = readProxyRequest(request);
    if (typeof passage === 'string') return respond(response, malformedResponse(passage));
    const reached = await this.#reach(passage.target, request.socket);
    if ('status' in reached) return respond(response, reached);
    forward(request, response, passage, reached);
  }

  async #tunnel(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    // The server no longer handles this socket's errors.
    socket.on('error', () => socket.destroy());
    const target = parseTarget(request.url ?? '');
    if (!target) return respondRaw(socket, malformedResponse('CONNECT needs a host and a port in the usual spelling'));
    const why = ambiguity(request) ?? otherHost(request, target, target.port);
    if (why !== undefined) return respondRaw(socket, malformedResponse(why));
    const reached = await this.#reach(target, socket);
    if ('status' in reached) return respondRaw(socket, reached);
    joinSockets(socket, reached, { head, idleMs: this.#limits.idleMs });
  }

  /** Returns a connection to the target, or the response to send instead. */
  async #reach(target: NetworkTarget, client: Duplex): Promise<Socket | ProxyResponse> {
    const verdict = await this.#list.check(target);
    if (verdict.kind === 'unknown') return unresolvedResponse(target);
    if (verdict.kind === 'busy') return busyResponse(target);
    if (verdict.kind === 'denied') {
      const denial = this.#denials.note({ host: target.host.text, port: target.port, reason: verdict.reason });
      if (denial) this.#report(denial);
      return deniedResponse(target, verdict.reason);
    }
    const gone = new AbortController();
    const leave = () => gone.abort();
    client.once('close', leave);
    const socket = client.destroyed ? undefined : await connectFirst(verdict.addresses, target.port, gone.signal);
    client.off('close', leave);
    if (!socket || this.#closed) {
      socket?.destroy();
      return unreachableResponse(target);
    }
    this.#hold(socket);
    socket.setTimeout(this.#limits.idleMs, () => socket.destroy());
    return socket;
  }

  #report(attempt: DeniedAttempt): void {
    try {
      this.onDenied(attempt);
    } catch {
      // An error in the listener must not affect other sessions. The attempt is refused anyway.
    }
  }

  #hold(socket: Socket): void {
    this.#open.add(socket);
    // Code inside may keep a connection open, which must not keep the host alive.
    socket.unref();
    socket.on('error', () => socket.destroy());
    socket.once('close', () => this.#open.delete(socket));
  }
}

async function resolveHere(name: string): Promise<readonly string[]> {
  return (await lookup(name, { all: true, order: 'verbatim' })).map(({ address }) => address);
}

const CONNECT_TIMEOUT_MS = 10_000;

/** Undefined if no address accepts, or if the client disconnects. */
async function connectFirst(
  addresses: readonly string[],
  port: number,
  gone: AbortSignal,
): Promise<Socket | undefined> {
  for (const host of addresses) {
    if (gone.aborted) return undefined;
    // Connect to an address, never a name, so that nothing is resolved again.
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true });
    // Handle errors until the new owner listens.
    socket.on('error', () => socket.destroy());
    try {
      await once(socket, 'connect', { signal: AbortSignal.any([gone, AbortSignal.timeout(CONNECT_TIMEOUT_MS)]) });
      return socket;
    } catch {
      socket.destroy(); // refused, unreachable or too slow: try the next one
    }
  }
  return undefined;
}

export type DeniedAttempt = Omit<NetworkDeniedEvent, 'type'>;

/** The same attempt is reported again after this time. */
const AGAIN_AFTER_MS = 60_000;
/** The most reports in a burst, and the time until one more is allowed. */
const MOST_AT_ONCE = 20;
const ONE_MORE_MS = 10_000;
const LONGEST_HOST = 255;

export class DenialReports {
  readonly #reported = new BoundedMap<string, number>(4 * MOST_AT_ONCE);
  readonly #room = new TokenBucket(MOST_AT_ONCE, ONE_MORE_MS, 0);
  #unreported = 0;

  /** The attempt to report; undefined if it is only counted. */
  note({ host, port, reason }: DeniedAttempt, nowMs = performance.now()): DeniedAttempt | undefined {
    const name = printableHost(host);
    const key = `${name} ${port} ${reason}`;
    const last = this.#reported.get(key);
    if ((last !== undefined && nowMs - last < AGAIN_AFTER_MS) || this.#room.take(1, nowMs) > 0) {
      this.#unreported++;
      return undefined;
    }
    this.#reported.set(key, nowMs);
    const more = this.#unreported;
    this.#unreported = 0;
    return { host: name, port, reason, more: more === 0 ? undefined : more };
  }
}

/** The host name comes from code and is shown on people's screens. */
function printableHost(host: string): string {
  return host.slice(0, LONGEST_HOST).replace(/[^\x21-\x7e]/g, '?');
}
