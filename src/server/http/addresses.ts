/** Where a server listens: addresses, and the beginning and the end of listening there. */

import { once } from 'node:events';
import type { Server } from 'node:http';
import { CellaError } from '../../protocol/errors.ts';

/** How long clients have to take the last of what they were sent. */
const LAST_WORDS_MS = 2000;
/** How often connections are closed whose last answer is out. */
const IDLE_MS = 20;

/** As a person on this machine types it. */
export function toUrl({ address, port, tls }: { address: string; port: number; tls: boolean }): string {
  const anywhere = address === '0.0.0.0' || address === '::';
  const name = anywhere ? '127.0.0.1' : address.includes(':') ? `[${address}]` : address;
  return `${tls ? 'https' : 'http'}://${name}:${port}`;
}

export async function listening(server: Server, listen: () => unknown, where: string): Promise<void> {
  const ready = once(server, 'listening');
  listen();
  await ready.catch((cause: NodeJS.ErrnoException) => {
    throw new CellaError('INVALID_OPTIONS', `The server cannot listen at ${where}: ${problemOf(cause)}.`, { cause });
  });
}

function problemOf({ code, message }: NodeJS.ErrnoException): string {
  switch (code) {
    case 'EADDRINUSE':
      return 'another program does. End that one, or choose another port with --port; 0 is any that is free';
    case 'EACCES':
      return 'this user may not. Choose a port above 1023 with --port';
    case 'EADDRNOTAVAIL':
      return 'this machine has no such address. Choose another with --host';
    default:
      return message;
  }
}

export async function closeServer(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, 'close');
  server.close();
  server.closeIdleConnections();
  // Clients keep connections that were busy a moment before.
  const idle = setInterval(() => server.closeIdleConnections(), IDLE_MS);
  const late = setTimeout(() => server.closeAllConnections(), LAST_WORDS_MS);
  await closed;
  clearInterval(idle);
  clearTimeout(late);
}
