/** The proxy's own responses, in plain words: they show up in the errors of programs that were refused. */

import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { NetworkTarget } from '../../protocol/network-hosts.ts';
import type { DenialReason } from './allow-list.ts';

export interface ProxyResponse {
  readonly status: number;
  /** In place of the usual words for the status: of a refused tunnel, many programs show nothing else. */
  readonly phrase?: string;
  readonly text: string;
}

const DENIAL_REASONS: Record<DenialReason, string> = {
  not_listed: 'the network policy of this session does not name it',
  port_not_listed: 'the network policy of this session names that host, but not this port',
  private_address:
    'it leads to an address of a private network, which the network policy of this session does not name',
};

export function deniedResponse({ host, port }: NetworkTarget, reason: DenialReason): ProxyResponse {
  const text = `Cella refused the connection to ${host.text}:${port}: ${DENIAL_REASONS[reason]} (${reason}).`;
  return { status: 403, phrase: `Refused by Cella (${reason})`, text };
}

export function unresolvedResponse({ host }: NetworkTarget): ProxyResponse {
  return { status: 502, text: `Cella found no address of ${host.text}.` };
}

export function busyResponse({ host }: NetworkTarget): ProxyResponse {
  const text = `Cella did not look up ${host.text}: other names of this session wait for an answer (too_many_lookups).`;
  return { status: 503, phrase: 'Refused by Cella (too_many_lookups)', text };
}

export function unreachableResponse({ host, port }: NetworkTarget): ProxyResponse {
  return { status: 502, text: `Cella could not connect to ${host.text}:${port}.` };
}

export function malformedResponse(why: string): ProxyResponse {
  return { status: 400, text: `Cella did not pass this request on: ${why}.` };
}

export function respond(response: ServerResponse, { status, phrase, text }: ProxyResponse): void {
  if (response.headersSent) return void response.destroy();
  // What is left of the request is not read.
  response.writeHead(status, phrase ?? STATUS_CODES[status] ?? '', {
    'content-type': 'text/plain; charset=utf-8',
    connection: 'close',
  });
  response.end(`${text}\n`);
}

/** Where the request was for a tunnel. */
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
