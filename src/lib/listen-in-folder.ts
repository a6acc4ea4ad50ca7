/** Listens on a Unix socket in a folder, however long its path is, for every user who can reach the folder. */

import { once } from 'node:events';
import { closeSync, constants, openSync } from 'node:fs';
import type { Server } from 'node:net';
import { join } from 'node:path';

/** The name of a socket has room for a hundred letters; by a descriptor of its folder it is short wherever that is. */
export async function listenInFolder(server: Server, folder: string, name: string): Promise<void> {
  if (process.platform !== 'linux') return await listen(server, join(folder, name));
  const handle = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await listen(server, `/proc/self/fd/${handle}/${name}`);
  } catch (error) {
    closeSync(handle);
    throw error;
  }
  // Its name is taken away by the same path when it closes.
  server.once('close', () => closeSync(handle));
}

async function listen(server: Server, path: string): Promise<void> {
  server.listen({ path, readableAll: true, writableAll: true });
  await once(server, 'listening');
}
