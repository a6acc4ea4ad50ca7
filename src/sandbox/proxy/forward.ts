/** One request in absolute form, passed on to the host that it names, and the answer back. */

import { type IncomingMessage, request as openRequest, type RequestOptions, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream';
import { readTarget, type Target } from '../../protocol/network-hosts.ts';
import { answer, malformed, unreachable } from './answers.ts';
import { ambiguity, passedOn } from './headers.ts';

const USUAL_PORT = 80;

export interface Passage {
  readonly target: Target;
  /** The host and port as they are written in a Host header. */
  readonly authority: string;
  readonly path: string;
}

/** What the request asks for, or why it is not passed on. */
export function readPassage(request: IncomingMessage): Passage | string {
  const [, authority, rest = ''] = /^http:\/\/([^/?#\\@]*)([/?][^#]*)?$/i.exec(request.url ?? '') ?? [];
  if (authority === undefined) {
    return 'its target is not of the form http://host/path, without a user or a fragment (for https, use CONNECT)';
  }
  const target = readTarget(authority, USUAL_PORT);
  if (!target) return 'its target names no host in the usual spelling';
  const why = ambiguity(request) ?? otherHost(request, target, USUAL_PORT);
  if (why !== undefined) return why;
  const { text } = target.host;
  const name = text.includes(':') ? `[${text}]` : text;
  const path = rest.startsWith('/') ? rest : `/${rest}`;
  return { target, authority: target.port === USUAL_PORT ? name : `${name}:${target.port}`, path };
}

/** Whether the Host header names another host than the target does, in words. */
export function otherHost({ headers }: IncomingMessage, { host, port }: Target, usual: number): string | undefined {
  if (headers.host === undefined) return undefined;
  const named = readTarget(headers.host, usual);
  return named?.host.text === host.text && named.port === port ? undefined : 'its Host header names another host';
}

/** `socket` is connected to the target. Whoever hangs up ends both. */
export function forward(request: IncomingMessage, response: ServerResponse, passage: Passage, socket: Socket): void {
  const bodyless = request.headers['content-length'] === undefined && !request.headers['transfer-encoding'];
  const headers = ['Host', passage.authority, ...passedOn(request, ['host', 'expect'])];
  if (bodyless && !['GET', 'HEAD', 'DELETE', 'OPTIONS'].includes(request.method ?? ''))
    headers.push('Content-Length', '0');
  const options: RequestOptions = {
    method: request.method,
    path: passage.path,
    headers: [...headers, 'Connection', 'close'],
    setHost: false,
    // Without an agent: one would make a connection of its own.
    createConnection: () => socket,
  };
  const failed = () => {
    // An answer that has begun ends by itself: a server may give one without hearing all of the request.
    if (response.headersSent) return;
    socket.destroy();
    answer(response, unreachable(passage.target));
  };
  response.once('close', () => socket.destroy());
  try {
    const onward = openRequest(options, (reply) => {
      try {
        response.writeHead(reply.statusCode ?? 502, reply.statusMessage, passedOn(reply));
      } catch {
        return failed(); // no server that means well answers with such headers
      }
      pipeline(reply, response, () => socket.destroy());
    });
    onward.maxHeadersCount = 0;
    onward.on('error', failed);
    if (bodyless) onward.end();
    else pipeline(request, onward, (error) => error && failed());
  } catch {
    socket.destroy();
    answer(response, malformed('it has a header or a path that no request may have'));
  }
}
