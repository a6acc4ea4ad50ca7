/** The folder by which one enclosure reaches the host: it holds one socket, and no other enclosure sees it. */

import { chmodSync, mkdirSync, mkdtempSync } from 'node:fs';
import type { Server } from 'node:net';
import { join } from 'node:path';
import { listenInFolder } from './listen-in-folder.ts';

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

export async function listenInGateway(folder: string, server: Server): Promise<void> {
  await listenInFolder(server, folder, GATEWAY_SOCKET);
}
