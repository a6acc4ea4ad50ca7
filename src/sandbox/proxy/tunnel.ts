/** Two connections joined to one: bytes pass as they come, as fast as the slower side takes them. */

import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

export interface TunnelOptions {
  /** What the client has sent right behind its request. */
  readonly head: Buffer;
  readonly idleMs: number;
}

const ESTABLISHED = 'HTTP/1.1 200 Connection established\r\n\r\n';

/** The end of one direction is passed on; an error or a silence in both ends both. */
export function join(client: Duplex, host: Socket, { head, idleMs }: TunnelOptions): void {
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
