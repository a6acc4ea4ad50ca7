/** Which server a command works with: the one at an address, the one that runs on its data folder, or none. */

import { lstat } from 'node:fs/promises';
import { connect as connectSocket } from 'node:net';
import { join } from 'node:path';
import { type Client, connect } from '../../client/index.ts';
import { SOCKET_FILE } from '../../protocol/daemon-files.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { StoragePlace } from '../context.ts';
import { UsageError } from '../exit.ts';
import { storageThere } from './daemon-facts.ts';
import { inTime } from './in-time.ts';
import { tokenIn } from './token.ts';

const PATIENCE_MS = 15_000;

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
  const { url, tokenFile } = server;
  const token = tokenFile === undefined ? server.token : await tokenIn(tokenFile);
  if (token === undefined) {
    throw new UsageError(`The server at ${url} needs a token.`, 'Give --token-file, or set CELLA_TOKEN.');
  }
  return { client: await connect({ url, token }), where: url, here: false, shares: false };
}

/** What an earlier server has left there is no server. */
async function onFolder(place: StoragePlace): Promise<Reached | undefined> {
  const { dataDir } = place;
  const socket = join(dataDir, SOCKET_FILE);
  const facts = await lstat(socket).catch(() => undefined); // none was ever started there
  if (!facts?.isSocket()) return undefined;
  if (process.getuid && facts.uid !== process.getuid()) {
    if (!(await mayLive(socket))) return undefined;
    throw new UsageError(
      `The server on ${dataDir} belongs to another user.`,
      'Ask it by its address, with --url and a token of yours, or name another folder with --data.',
    );
  }
  const storage = await storageThere(place);
  if (storage === 'other') return undefined;
  try {
    // One that hangs is no reason to work without it: it has its agents.
    const client = await inTime(connect({ socket }), PATIENCE_MS, `The server on ${dataDir} does not answer.`);
    return { client, where: dataDir, here: true, shares: storage === 'same' };
  } catch (error) {
    if (error instanceof CellaError && error.code === 'DAEMON_UNREACHABLE' && error.details.refused === true) {
      return undefined;
    }
    throw error;
  }
}

/** Whom the system keeps from looking cannot know. */
function mayLive(socket: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const probe = connectSocket(socket);
  probe.once('connect', () => resolve(true));
  probe.once('error', (error: NodeJS.ErrnoException) =>
    resolve(error.code !== 'ECONNREFUSED' && error.code !== 'ENOENT'),
  );
  return promise.finally(() => probe.destroy());
}
