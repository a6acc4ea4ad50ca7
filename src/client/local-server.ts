/** Finds and connects to the server of a data folder on this machine. Not for browsers. */

import { lstat, readFile } from 'node:fs/promises';
import { connect as connectSocket } from 'node:net';
import { join } from 'node:path';
import { withTimeout } from '../lib/deadline.ts';
import { tryParseJson } from '../lib/json-scanner.ts';
import { SERVER_FILE, SOCKET_FILE } from '../protocol/enums.ts';
import { CellaError } from '../protocol/errors.ts';
import { isSameStorage, ServerFile, type StorageLocation } from '../protocol/server-info.ts';
import { type Client, connect } from './client.ts';

/** Undefined if no server runs there, or if it uses another storage. `sameStorage`: its data is readable without it. */
export async function findLocalServer(
  location: StorageLocation,
): Promise<{ readonly client: Client; readonly sameStorage: boolean } | undefined> {
  const { dataDir } = location;
  const socket = await findSocket(dataDir);
  if (socket === undefined) return undefined;
  const storage = await compareStorage(location);
  if (storage === 'other') return undefined;
  const client = await connectToSocket(socket, dataDir);
  return client && { client, sameStorage: storage === 'same' };
}

/** Undefined if no server runs there. */
export async function connectToFolder(dataDir: string): Promise<Client | undefined> {
  const socket = await findSocket(dataDir);
  return socket === undefined ? undefined : await connectToSocket(socket, dataDir);
}

/** Undefined if the socket is stale. Throws if the server hangs, because it still holds its kernels. */
async function connectToSocket(socket: string, dataDir: string): Promise<Client | undefined> {
  try {
    return await withConnectTimeout(connect({ socket }), `The server on ${dataDir}`);
  } catch (error) {
    const isStale =
      error instanceof CellaError && error.code === 'SERVER_UNREACHABLE' && error.details.refused === true;
    if (isStale) return undefined;
    throw error;
  }
}

const CONNECT_TIMEOUT_MS = 15_000;

/** `server` is its name for the message of SERVER_UNREACHABLE. */
export async function withConnectTimeout(connecting: Promise<Client>, server: string): Promise<Client> {
  const message = `${server} has not answered for ${CONNECT_TIMEOUT_MS / 1000} s.`;
  return await withTimeout(connecting, CONNECT_TIMEOUT_MS, () => new CellaError('SERVER_UNREACHABLE', message));
}

/**
 * Compares this storage with that of the server on the data folder. `other`: the location names a different Redis, so the
 * two share no data. `its own`: the location names no Redis, but the server uses one.
 */
export async function compareStorage({ dataDir, redis }: StorageLocation): Promise<'same' | 'its own' | 'other'> {
  const text = await readFile(join(dataDir, SERVER_FILE), 'utf8').catch(() => ''); // the server has just ended
  const theirs = ServerFile.safeParse(tryParseJson(text)).data?.redis;
  if (!redis) return theirs ? 'its own' : 'same';
  return theirs && isSameStorage({ dataDir, redis }, { dataDir, redis: theirs }) ? 'same' : 'other';
}

/** Undefined if there is none. It may be stale. */
async function findSocket(dataDir: string): Promise<string | undefined> {
  const socket = join(dataDir, SOCKET_FILE);
  const facts = await lstat(socket).catch(() => undefined); // no server was ever started there
  if (!facts?.isSocket()) return undefined;
  if (!process.getuid || facts.uid === process.getuid()) return socket;
  if (!(await mayBeAlive(socket))) return undefined;
  throw new CellaError('INVALID_OPTIONS', `The server on ${dataDir} belongs to another user.`, {
    advice: 'Use its address, with --url and your token, or name another folder with --data.',
  });
}

/** True if this user is not permitted to connect: a server may be there. */
function mayBeAlive(socket: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const probe = connectSocket(socket);
  probe.once('connect', () => resolve(true));
  probe.once('error', (error: NodeJS.ErrnoException) =>
    resolve(error.code !== 'ECONNREFUSED' && error.code !== 'ENOENT'),
  );
  return promise.finally(() => probe.destroy());
}
