/** The folder by which one enclosure reaches the host: it holds one socket, and no other enclosure sees it. */

import { once } from 'node:events';
import { chmodSync, closeSync, constants, mkdirSync, mkdtempSync, openSync } from 'node:fs';
import type { Server } from 'node:net';
import { join } from 'node:path';

/** In the folder, and so inside the enclosure. */
export const GATEWAY_SOCKET = 'socket';

/**
 * Makes one below a folder that only this user can enter: whoever the enclosure runs as can connect to the socket, and
 * nobody else on this machine.
 */
export function makeGatewayFolder(parent: string): string {
  mkdirSync(parent, { recursive: true, mode: 0o700 });
  chmodSync(parent, 0o700);
  const folder = mkdtempSync(join(parent, 'gateway-'));
  // Whatever the umask of this process is.
  chmodSync(folder, 0o755);
  return folder;
}

/** Has a server listen there. The name of a socket has room for a hundred letters: it goes by a descriptor of its folder. */
export async function listenInGateway(folder: string, server: Server): Promise<void> {
  const all = { readableAll: true, writableAll: true };
  if (process.platform !== 'linux') {
    server.listen({ path: join(folder, GATEWAY_SOCKET), ...all });
    await once(server, 'listening');
    return;
  }
  const handle = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    server.listen({ path: `/proc/self/fd/${handle}/${GATEWAY_SOCKET}`, ...all });
    await once(server, 'listening');
  } catch (error) {
    closeSync(handle);
    throw error;
  }
  // Its name is taken away by the same path when it closes.
  server.once('close', () => closeSync(handle));
}
