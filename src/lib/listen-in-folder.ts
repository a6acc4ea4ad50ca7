/** Listens on a Unix socket in a folder, however long the path is, for every user who can reach the folder. */

import { once } from 'node:events';
import { closeSync, constants, openSync } from 'node:fs';
import type { Server } from 'node:net';
import { join } from 'node:path';

/** A socket's path has room for about a hundred bytes. A path through the folder's descriptor is always short. */
export async function listenInFolder(server: Server, folder: string, name: string): Promise<void> {
  if (process.platform !== 'linux') return await listen(server, join(folder, name));
  const handle = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await listen(server, `/proc/self/fd/${handle}/${name}`);
  } catch (error) {
    closeSync(handle);
    throw error;
  }
  // Node removes the socket through the same path when the server closes, so the descriptor stays open until then.
  server.once('close', () => closeSync(handle));
}

async function listen(server: Server, path: string): Promise<void> {
  server.listen({ path, readableAll: true, writableAll: true });
  await once(server, 'listening');
}
