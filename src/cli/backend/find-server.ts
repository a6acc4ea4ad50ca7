/** Finds the server that a command works with (at a URL, or on the data folder by its socket) and connects to it. */

import type { Stats } from 'node:fs';
import { open } from 'node:fs/promises';
import { type Client, connect } from '../../client/index.ts';
import { connectToFolder, findLocalServer, withConnectTimeout } from '../../client/local-server.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import { UsageError } from '../command-errors.ts';
import type { StorageTarget } from '../context.ts';
import { shellQuote } from '../format.ts';
import type { Defaults } from '../session-flags.ts';
import { resolveDataDir } from '../target-options.ts';

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
  const found = await findLocalServer(place);
  return found && { ...found, where: place.dataDir, sameMachine: true };
}

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
  if (url !== undefined) return await connectToUrl({ url, ...selectToken(flags, defaults) });
  const dataDir = resolveDataDir(flags, defaults);
  const client = await connectToFolder(dataDir);
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
