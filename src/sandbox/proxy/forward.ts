/**
 * Forwards one request or tunnel to its target, and refuses requests that two parsers could read differently. The proxy's own
 * responses are plain text, because they appear in the errors of refused programs.
 */

import {
  type IncomingMessage,
  request as openRequest,
  type RequestOptions,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { Socket } from 'node:net';
import { type Duplex, pipeline } from 'node:stream';
import { type NetworkTarget, parseTarget } from '../../protocol/network-hosts.ts';
import type { DenialReason } from './allow-list.ts';

const DEFAULT_PORT = 80;

interface ProxyRequest {
  readonly target: NetworkTarget;
  /** The host and port as written in a Host header. */
  readonly authority: string;
  readonly path: string;
}

/** Returns the parsed request, or the reason for refusing it. */
export function readProxyRequest(request: IncomingMessage): ProxyRequest | string {
  const [, authority, rest = ''] = /^http:\/\/([^/?#\\@]*)([/?][^#]*)?$/i.exec(request.url ?? '') ?? [];
  if (authority === undefined) {
    return 'its target is not of the form http://host/path, without a user or a fragment (for https, use CONNECT)';
  }
  const target = parseTarget(authority, DEFAULT_PORT);
  if (!target) return 'its target names no host in the usual spelling';
  const why = ambiguity(request) ?? otherHost(request, target, DEFAULT_PORT);
  if (why !== undefined) return why;
  const { text } = target.host;
  const name = text.includes(':') ? `[${text}]` : text;
  const path = rest.startsWith('/') ? rest : `/${rest}`;
  return { target, authority: target.port === DEFAULT_PORT ? name : `${name}:${target.port}`, path };
}

/** Describes a Host header that names a different host from the target; undefined if they agree. */
export function otherHost(
  { headers }: IncomingMessage,
  { host, port }: NetworkTarget,
  usual: number,
): string | undefined {
  if (headers.host === undefined) return undefined;
  const named = parseTarget(headers.host, usual);
  return named?.host.text === host.text && named.port === port ? undefined : 'its Host header names another host';
}

/** `socket` is connected to the target. When one side closes, both end. */
export function forward(
  request: IncomingMessage,
  response: ServerResponse,
  passage: ProxyRequest,
  socket: Socket,
): void {
  const bodyless = request.headers['content-length'] === undefined && !request.headers['transfer-encoding'];
  const headers = ['Host', passage.authority, ...forwardedHeaders(request, ['host', 'expect'])];
  if (bodyless && !['GET', 'HEAD', 'DELETE', 'OPTIONS'].includes(request.method ?? ''))
    headers.push('Content-Length', '0');
  const options: RequestOptions = {
    method: request.method,
    path: passage.path,
    headers: [...headers, 'Connection', 'close'],
    setHost: false,
    // An agent would open its own connection.
    createConnection: () => socket,
  };
  const failed = () => {
    // A response that has begun ends by itself: a server may respond before it has read the whole request.
    if (response.headersSent) return;
    socket.destroy();
    respond(response, unreachableResponse(passage.target));
  };
  response.once('close', () => socket.destroy());
  try {
    const onward = openRequest(options, (reply) => {
      try {
        response.writeHead(reply.statusCode ?? 502, reply.statusMessage, forwardedHeaders(reply));
      } catch {
        return failed(); // no well-meaning server sends such headers
      }
      pipeline(reply, response, () => socket.destroy());
    });
    onward.maxHeadersCount = 0;
    onward.on('error', failed);
    if (bodyless) onward.end();
    else pipeline(request, onward, (error) => error && failed());
  } catch {
    socket.destroy();
    respond(response, malformedResponse('it has an invalid header or path'));
  }
}

/** Headers that apply to one connection only. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-authentication-info',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Headers of the whole request. A client that declares one of them hop-by-hop wants it dropped on the way. */
const NEVER_HOP = ['content-length', 'host', 'cookie', 'authorization'];

/** Why a request is ambiguous: two parsers could read it as two different requests. */
export function ambiguity(request: IncomingMessage): string | undefined {
  const { headersDistinct: all } = request;
  if ((all.host?.length ?? 0) > 1) return 'it has more than one Host header';
  if ((all['content-length']?.length ?? 0) > 1) return 'it has more than one Content-Length header';
  const coding = all['transfer-encoding'];
  if (coding && all['content-length']) return 'it has both a Content-Length and a Transfer-Encoding header';
  if (coding && coding.join().toLowerCase() !== 'chunked') return 'its Transfer-Encoding is not chunked';
  if (namedByConnection(request).some((name) => NEVER_HOP.includes(name))) return 'its Connection header names another';
  return undefined;
}

/** Name and value pairs, as received. */
export function forwardedHeaders(message: IncomingMessage, without: readonly string[] = []): string[] {
  const dropped = new Set([...HOP_BY_HOP, ...namedByConnection(message), ...without]);
  const kept: string[] = [];
  for (let at = 0; at + 1 < message.rawHeaders.length; at += 2) {
    const [name = '', value = ''] = message.rawHeaders.slice(at, at + 2);
    if (!dropped.has(name.toLowerCase())) kept.push(name, value);
  }
  return kept;
}

function namedByConnection({ headersDistinct }: IncomingMessage): string[] {
  const values = [...(headersDistinct.connection ?? []), ...(headersDistinct['proxy-connection'] ?? [])];
  return values.flatMap((value) => value.split(',')).map((name) => name.trim().toLowerCase());
}

interface TunnelOptions {
  /** Data that the client sent right after its request. */
  readonly head: Buffer;
  readonly idleMs: number;
}

const ESTABLISHED = 'HTTP/1.1 200 Connection established\r\n\r\n';

/** Passes on the end of one direction. An error, or inactivity in both directions, ends both. */
export function joinSockets(client: Duplex, host: Socket, { head, idleMs }: TunnelOptions): void {
  const end = () => {
    client.destroy();
    host.destroy();
  };
  client.once('close', end);
  host.once('close', end);
  if ('setTimeout' in client && typeof client.setTimeout === 'function') client.setTimeout(idleMs, end);
  client.write(ESTABLISHED);
  if (head.length > 0) host.write(head);
  client.pipe(host);
  host.pipe(client);
}

export interface ProxyResponse {
  readonly status: number;
  /** Replaces the default status text. Many programs show nothing else of a refused tunnel. */
  readonly phrase?: string;
  readonly text: string;
}

const DENIAL_REASONS: Record<DenialReason, string> = {
  not_listed: 'the network policy of this session does not list it',
  port_not_listed: 'the network policy of this session lists that host, but not this port',
  private_address: 'it resolves to a private address that the network policy of this session does not list',
};

export function deniedResponse({ host, port }: NetworkTarget, reason: DenialReason): ProxyResponse {
  const text = `Cella refused the connection to ${host.text}:${port}: ${DENIAL_REASONS[reason]} (${reason}).`;
  return { status: 403, phrase: `Refused by Cella (${reason})`, text };
}

export function unresolvedResponse({ host }: NetworkTarget): ProxyResponse {
  return { status: 502, text: `Cella found no address of ${host.text}.` };
}

export function busyResponse({ host }: NetworkTarget): ProxyResponse {
  const text = `Cella did not look up ${host.text}: too many lookups of this session are waiting (too_many_lookups).`;
  return { status: 503, phrase: 'Refused by Cella (too_many_lookups)', text };
}

export function unreachableResponse({ host, port }: NetworkTarget): ProxyResponse {
  return { status: 502, text: `Cella could not connect to ${host.text}:${port}.` };
}

export function malformedResponse(why: string): ProxyResponse {
  return { status: 400, text: `Cella did not forward this request: ${why}.` };
}

export function respond(response: ServerResponse, { status, phrase, text }: ProxyResponse): void {
  if (response.headersSent) return void response.destroy();
  // Drop the rest of the request.
  response.writeHead(status, phrase ?? STATUS_CODES[status] ?? '', {
    'content-type': 'text/plain; charset=utf-8',
    connection: 'close',
  });
  response.end(`${text}\n`);
}

/** Responds to a tunnel request. */
export function respondRaw(socket: Duplex, { status, phrase = STATUS_CODES[status], text }: ProxyResponse): void {
  const body = Buffer.from(`${text}\n`);
  const head = [
    `HTTP/1.1 ${status} ${phrase}`,
    'content-type: text/plain; charset=utf-8',
    `content-length: ${body.length}`,
    'connection: close',
  ];
  socket.end(Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body]));
}
