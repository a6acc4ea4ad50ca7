/** Finds the server that a command works with (at a URL, or on the data folder by its socket) and connects to it. */

import type { Stats } from 'node:fs';
import { lstat, open, readFile } from 'node:fs/promises';
import { connect as connectSocket } from 'node:net';
import { join } from 'node:path';
import { type Client, connect } from '../../client/index.ts';
import { withTimeout } from '../../lib/deadline.ts';
import { tryParseJson } from '../../lib/json-scanner.ts';
import { SERVER_FILE, SOCKET_FILE } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import { ServerFile } from '../../protocol/server-info.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import { UsageError } from '../command-errors.ts';
import type { StorageTarget } from '../context.ts';
import { shellQuote } from '../format.ts';
import type { Defaults } from '../session-flags.ts';
import { isSameStorage, resolveDataDir } from '../target-options.ts';

export interface ServerConnection {
  readonly client: Client;
  /** For messages. */
  readonly where: string;
  /** Whether it is the one on the data folder of this command: folders are the same there and here. */
  readonly sameMachine: boolean;
  /** Whether its storage is that of this command, which can look into it without asking. */
  readonly sameStorage: boolean;
}

export class Reach {
  readonly #reached = new Map<string, Promise<ServerConnection | undefined>>();

  /** Undefined if the command works without a server. */
  server(place: StorageTarget): Promise<ServerConnection | undefined> {
    const key = JSON.stringify([place.server?.url, place.dataDir, place.redis]);
    const known = this.#reached.get(key) ?? findServer(place);
    this.#reached.set(key, known);
    return known;
  }

  async close(): Promise<void> {
    // Its caller has seen why it could not be reached.
    for (const one of this.#reached.values()) await (await one.catch(() => undefined))?.client.close();
  }
}

async function findServer(place: StorageTarget): Promise<ServerConnection | undefined> {
  const { server } = place;
  if (!server) return await findServerOnFolder(place);
  return { client: await connectToUrl(server), where: server.url, sameMachine: false, sameStorage: false };
}

async function findServerOnFolder(place: StorageTarget): Promise<ServerConnection | undefined> {
  const { dataDir } = place;
  const socket = await findSocket(dataDir);
  if (socket === undefined) return undefined;
  const storage = await compareStorage(place);
  if (storage === 'other') return undefined;
  const client = await connectToSocket(socket, dataDir);
  return client && { client, where: dataDir, sameMachine: true, sameStorage: storage === 'same' };
}

const CONNECT_TIMEOUT_MS = 15_000;

interface ServerAddress {
  readonly url: string;
  readonly token?: string | undefined;
  /** It wins over the token. */
  readonly tokenFile?: string | undefined;
}

async function connectToUrl({ url, token: given, tokenFile }: ServerAddress): Promise<Client> {
  const token = tokenFile === undefined ? given : await readTokenFile(tokenFile);
  if (token !== undefined) return await withConnectTimeout(connect({ url, token }), `The server at ${url}`);
  throw new UsageError(`The server at ${url} needs a token.`, 'Give --token-file, or set CELLA_TOKEN.');
}

/** Undefined if there is none. A server may no longer listen on it. */
async function findSocket(dataDir: string): Promise<string | undefined> {
  const socket = join(dataDir, SOCKET_FILE);
  const facts = await lstat(socket).catch(() => undefined); // none was ever started there
  if (!facts?.isSocket()) return undefined;
  if (!process.getuid || facts.uid === process.getuid()) return socket;
  if (!(await mayBeAlive(socket))) return undefined;
  throw new UsageError(
    `The server on ${dataDir} belongs to another user.`,
    'Use its address, with --url and your token, or name another folder with --data.',
  );
}

/** Undefined if the socket is stale. A server that hangs is an error: it still holds its kernels. */
async function connectToSocket(socket: string, dataDir: string): Promise<Client | undefined> {
  try {
    return await withConnectTimeout(connect({ socket }), `The server on ${dataDir}`);
  } catch (error) {
    if (error instanceof CellaError && error.code === 'SERVER_UNREACHABLE' && error.details.refused === true) {
      return undefined;
    }
    throw error;
  }
}

async function withConnectTimeout(connecting: Promise<Client>, server: string): Promise<Client> {
  const message = `${server} has not answered for ${CONNECT_TIMEOUT_MS / 1000} s.`;
  return await withTimeout(connecting, CONNECT_TIMEOUT_MS, () => new CellaError('SERVER_UNREACHABLE', message));
}

/** Whom the system keeps from looking cannot know. */
function mayBeAlive(socket: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const probe = connectSocket(socket);
  probe.once('connect', () => resolve(true));
  probe.once('error', (error: NodeJS.ErrnoException) =>
    resolve(error.code !== 'ECONNREFUSED' && error.code !== 'ENOENT'),
  );
  return promise.finally(() => probe.destroy());
}

async function readTokenFile(file: string): Promise<string> {
  const { text, stats } = await readWithStats(file).catch((error: Error) => {
    throw new UsageError(`The token cannot be read: ${error.message}.`, 'Give --token-file a file that holds one.');
  });
  // As ssh does with keys. A file of another user, such as a mounted secret, is that user's matter.
  if (stats.uid === process.getuid?.() && (stats.mode & 0o077) !== 0) {
    throw new UsageError(`Other users can read the token in ${file}.`, `Run: chmod 600 ${shellQuote(file)}`);
  }
  const token = text.trim();
  if (/^\S+$/.test(token)) return token;
  throw new UsageError(`There is no token in ${file}.`, '`cella tokens create` prints one, alone on stdout.');
}

async function readWithStats(file: string): Promise<{ text: string; stats: Stats }> {
  await using handle = await open(file);
  return { stats: await handle.stat(), text: await handle.readFile('utf8') };
}

/**
 * Whether that server keeps things where the command says: `other` where the command names a Redis storage that is not
 * the server's, so that the two have nothing in common; `its own` where the command names none and the server has one.
 */
export async function compareStorage({ dataDir, redis }: StorageTarget): Promise<'same' | 'its own' | 'other'> {
  const text = await readFile(join(dataDir, SERVER_FILE), 'utf8').catch(() => ''); // it has just ended
  const theirs = ServerFile.safeParse(tryParseJson(text)).data?.redis;
  if (!redis) return theirs ? 'its own' : 'same';
  return theirs && isSameStorage({ dataDir, redis }, { dataDir, redis: theirs }) ? 'same' : 'other';
}

export interface ServerFlags {
  readonly url?: string;
  readonly tokenFile?: string;
  readonly data?: string;
}

/** Undefined for the server on the data folder. One that is named by hand is meant, whatever the variables say. */
export function resolveServerUrl(flags: ServerFlags, defaults: Defaults): string | undefined {
  return flags.url ?? (flags.data === undefined ? defaults.serverUrl : undefined);
}

export async function connectToServer(flags: ServerFlags, defaults: Defaults): Promise<Client> {
  const url = resolveServerUrl(flags, defaults);
  if (url === undefined) return await connectToFolder(resolveDataDir(flags, defaults));
  return await connectToUrl({ url, ...selectToken(flags, defaults) });
}

async function connectToFolder(dataDir: string): Promise<Client> {
  const socket = await findSocket(dataDir);
  const client = socket === undefined ? undefined : await connectToSocket(socket, dataDir);
  if (client) return client;
  throw new CellaError('SERVER_UNREACHABLE', `No server runs on ${dataDir}.`, {
    details: { refused: true },
    advice: 'Start one with `cella serve`, or name another with --url or CELLA_URL.',
  });
}

/** A file that is named by hand, else the variable, else a file that something else names. */
function selectToken({ tokenFile }: ServerFlags, { serverToken, serverTokenFile }: Defaults) {
  if (tokenFile !== undefined) return { tokenFile };
  return serverToken === undefined ? { tokenFile: serverTokenFile } : { token: serverToken };
}

/** By its id, or by its agent key. */
export async function findSession(client: Client, name: string): Promise<SessionInfo> {
  if (/^ses_[0-9a-z]{16}$/.test(name)) return await client.sessions.get(name);
  const { sessions: own } = await client.sessions.list({ agentKey: name, owner: client.me.userId, limit: 1 });
  const found = [...own];
  if (own.length === 0) for await (const one of client.sessions.all({ agentKey: name, limit: 100 })) found.push(one);
  const [first, second] = found;
  if (!first) {
    throw new UsageError(`There is no session ${JSON.stringify(name)}.`, '`cella sessions list` shows all sessions.');
  }
  if (!second) return first;
  throw new UsageError(`Several sessions are called ${JSON.stringify(name)}.`, 'Name one by its id.');
}
