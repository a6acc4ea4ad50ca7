/** Which server a command works with: the one at an address, the one that runs on its data folder, or none. */

import type { Client } from '../../client/index.ts';
import type { StoragePlace } from '../context.ts';
import { connectAt, connectOn, socketOn } from './connecting.ts';
import { storageThere } from './daemon-facts.ts';

export interface Reached {
  readonly client: Client;
  /** For messages. */
  readonly where: string;
  /** Whether it is the one on the data folder of this command: folders are the same there and here. */
  readonly here: boolean;
  /** Whether its storage is that of this command, which can look into it without asking. */
  readonly shares: boolean;
}

export class Reach {
  readonly #reached = new Map<string, Promise<Reached | undefined>>();

  /** Undefined where the command does its work itself. */
  server(place: StoragePlace): Promise<Reached | undefined> {
    const key = JSON.stringify([place.server?.url, place.dataDir, place.redis]);
    const known = this.#reached.get(key) ?? reach(place);
    this.#reached.set(key, known);
    return known;
  }

  async close(): Promise<void> {
    // One that could not be reached has told whoever asked for it.
    for (const one of this.#reached.values()) await (await one.catch(() => undefined))?.client.close();
  }
}

async function reach(place: StoragePlace): Promise<Reached | undefined> {
  const { server } = place;
  if (!server) return await onFolder(place);
  return { client: await connectAt(server), where: server.url, here: false, shares: false };
}

async function onFolder(place: StoragePlace): Promise<Reached | undefined> {
  const { dataDir } = place;
  const socket = await socketOn(dataDir);
  if (socket === undefined) return undefined;
  const storage = await storageThere(place);
  if (storage === 'other') return undefined;
  const client = await connectOn(socket, dataDir);
  return client && { client, where: dataDir, here: true, shares: storage === 'same' };
}
