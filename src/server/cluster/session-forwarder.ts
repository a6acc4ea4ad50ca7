/**
 * Forwards requests for a session to the server that owns it. Both servers authenticate the client by its own credentials.
 * A request that came from another server is never forwarded again.
 */

import { Agent, type IncomingMessage } from 'node:http';
import { Agent as TlsAgent } from 'node:https';
import { omitUndefined } from '../../lib/values.ts';
import { terminalRoutes } from '../../protocol/api/execution-routes.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import { readAdminToken } from '../access/access-control.ts';
import { abortConnection, clientAddress, pathOf, type RequestContext } from '../http/server-context.ts';
import { ownedElsewhere } from '../sessions/session-ending.ts';
import type { SessionManager } from '../sessions/session-manager.ts';
import { FORWARD_HEADER } from './forward-signer.ts';
import { ClusterPeerMonitor, type PeerAddress } from './peer-monitor.ts';
import {
  endToEndHeaders,
  listItems,
  openSocket,
  type ProxySocketOptions,
  proxyRequest,
  proxySocket,
} from './peer-proxy.ts';
import type { Peer, Peers } from './peers.ts';

interface SessionForwarderOptions {
  readonly peers: Peers;
  readonly sessions: SessionManager;
  /** The token of the admin `local`, for clients of the local socket that sent none. */
  readonly adminTokenPath: string;
  readonly sockets: Pick<ProxySocketOptions, 'slowClientTimeoutMs' | 'bufferBytes' | 'closing'>;
}

/** Forwards the length of the body with the body, so that no byte of it is read as another request. */
function bodyOf(incoming: IncomingMessage) {
  const { 'content-length': length, 'transfer-encoding': coding } = incoming.headers;
  if (coding !== undefined) return { stream: incoming, headers: { 'transfer-encoding': 'chunked' } };
  if (length === undefined) return { stream: undefined, headers: {} };
  // Set again: a client can name this header in `Connection`, which would remove it and leave the body without an end.
  return { stream: incoming, headers: { 'content-length': length } };
}

interface Target extends Peer {
  readonly id: string;
}

export class SessionForwarder implements Disposable {
  readonly #options: SessionForwarderOptions;
  readonly #agents = { http: new Agent({ keepAlive: true }), https: new TlsAgent({ keepAlive: true }) };
  readonly #monitor: ClusterPeerMonitor;

  constructor(options: SessionForwarderOptions) {
    this.#options = options;
    this.#monitor = new ClusterPeerMonitor({
      isAlive: (id) => options.peers.isAlive(id),
      answers: (other, signal) => this.#answers(other, signal),
    });
  }

  /** The response of the server that owns the session; undefined if this server is to answer. `claim`: it becomes the owner if there is none. */
  async forward(c: RequestContext, session: SessionInfo, claim: boolean): Promise<Response | undefined> {
    if (c.get('forwardMark')) return undefined;
    const target = await this.#find(session, claim);
    if (!target) return undefined;
    const { upgrade } = c.env;
    return upgrade ? await this.#socket(c, target, upgrade) : await this.#request(c, target);
  }

  /** Deletes the session at its owner, as the principal of this request. False if this server is to do it. */
  async delete(c: RequestContext, session: SessionInfo): Promise<boolean> {
    const target = c.get('forwardMark') ? undefined : await this.#find(session, true);
    if (!target) return false;
    const [method, path] = ['DELETE', `/v1/sessions/${session.id}`];
    const headers = await this.#headers(c, method, path);
    const { 'content-length': _length, 'content-type': _type, ...bare } = headers;
    const watched = this.#monitor.watch(target);
    const ends = { cut: () => {}, onEnd: () => watched[Symbol.dispose]() };
    const connection = { url: target.url, agent: this.#agentOf(target), signal: watched.gone, ...ends };
    const answer = await proxyRequest({ ...connection, method, path, headers: bare });
    await answer.arrayBuffer();
    if (answer.status >= 300 && answer.status !== 404) throw ownedElsewhere({}, `it answered with ${answer.status}.`);
    return true;
  }

  [Symbol.dispose](): void {
    this.#monitor[Symbol.dispose]();
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }

  async #answers(other: PeerAddress, signal: AbortSignal): Promise<boolean> {
    const connection = { url: other.url, agent: this.#agentOf(other), signal, cut: () => {}, onEnd: () => {} };
    const answer = await proxyRequest({ ...connection, method: 'GET', path: '/health', headers: {} });
    await answer.arrayBuffer();
    return true;
  }

  async #find(session: SessionInfo, claim: boolean): Promise<Target | undefined> {
    const { sessions, peers } = this.#options;
    const id = (await sessions.owningServer(session)) ?? (claim ? await this.#claim(session) : undefined);
    if (id === undefined) return undefined;
    // If a process that is no server owns it, this server answers with the error.
    const peer = await peers.find(id);
    return peer && { ...peer, id };
  }

  /** The session has no owner: this server claims it before it reads the body. Another server may be faster. */
  async #claim(session: SessionInfo): Promise<string | undefined> {
    const { sessions } = this.#options;
    try {
      await sessions.open(session.id);
      return undefined;
    } catch (error) {
      if (!(error instanceof CellaError && error.code === 'SESSION_ELSEWHERE')) throw error;
      return await sessions.owningServer(session);
    }
  }

  async #request(c: RequestContext, target: Target): Promise<Response> {
    const { method } = c.req;
    const path = pathOf(c);
    const { incoming } = c.env;
    const headers = await this.#headers(c, method, path);
    const watched = this.#monitor.watch(target);
    const signal = AbortSignal.any([watched.gone, c.req.raw.signal]);
    const ends = { cut: () => abortConnection(c.env), onEnd: () => watched[Symbol.dispose]() };
    const body = bodyOf(incoming);
    const connection = { url: target.url, agent: this.#agentOf(target), signal, ...ends };
    const answer = await proxyRequest({
      ...connection,
      method,
      path,
      headers: { ...headers, ...body.headers },
      body: body.stream,
    });
    c.set('forwarded', true);
    return answer;
  }

  async #socket(
    c: RequestContext,
    target: Target,
    upgrade: NonNullable<RequestContext['env']['upgrade']>,
  ): Promise<Response> {
    const path = pathOf(c);
    const { socket } = c.env;
    const headers = await this.#headers(c, 'GET', path);
    const protocols = listItems(c.req.header('sec-websocket-protocol') ?? '');
    const ownHeaders = Object.entries(headers).filter(([name]) => !name.startsWith('sec-websocket-'));
    const watched = this.#monitor.watch(target);
    const request = { url: target.url, path, headers: Object.fromEntries(ownHeaders), protocols, gone: watched.gone };
    const owner = await openSocket(request).catch((error) => {
      watched[Symbol.dispose]();
      throw error;
    });
    c.set('forwarded', true);
    const left = () => {
      watched[Symbol.dispose]();
      // If the client closed properly, the other side already knows.
      if (!(owner instanceof Response))
        setTimeout(() => owner.terminate(), this.#options.sockets.slowClientTimeoutMs).unref();
    };
    if (owner instanceof Response) {
      left();
      return owner;
    }
    if (socket.destroyed) left();
    else socket.once('close', left);
    upgrade.accept = (client, { room, unread, onRefused }) =>
      proxySocket(client, owner, {
        ...this.#options.sockets,
        ...{ gone: watched.gone, hold: room(), unread, onRefused },
        canResume: c.get('route') !== terminalRoutes.openTerminal.path,
      });
    return new Response(null, { status: 204 });
  }

  async #headers(c: RequestContext, method: string, path: string): Promise<Record<string, string | string[]>> {
    const { [FORWARD_HEADER]: _forged, ...passed } = endToEndHeaders(c.env.incoming.headersDistinct);
    const own = await this.#credentials(c);
    const marked = {
      method,
      path,
      authorization: own ?? c.req.header('authorization'),
      cookie: c.req.header('cookie'),
    };
    const hop = this.#options.peers.forwardSigner.sign(marked, {
      from: this.#options.peers.id,
      client: clientAddress(c),
    });
    const credentials = omitUndefined({ authorization: own });
    return { ...passed, ...credentials, [FORWARD_HEADER]: hop, 'x-request-id': c.get('requestId') };
  }

  /** A client of the local socket is the admin but has no credential that another server accepts. */
  async #credentials(c: RequestContext): Promise<string | undefined> {
    if (c.get('principal')?.authMethod.kind !== 'server') return undefined;
    const file = await readAdminToken(this.#options.adminTokenPath);
    return file.kind === 'private' ? `Bearer ${file.token}` : undefined;
  }

  #agentOf({ url }: Pick<Peer, 'url'>): Agent {
    return url.startsWith('https:') ? this.#agents.https : this.#agents.http;
  }
}
