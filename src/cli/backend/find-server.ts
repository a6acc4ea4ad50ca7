/** Finds the server that a command works with (at a URL, or on the data folder by its socket) and connects to it. */

import type { Stats } from 'node:fs';
import { open } from 'node:fs/promises';
import { type Client, connect } from '../../client/index.ts';
import { connectToFolder, findLocalServer, withConnectTimeout } from '../../client/local-server.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import { resolveDataDir } from '../../settings/process-config.ts';
import { UsageError } from '../command-errors.ts';
import { shellQuote } from '../format.ts';
import type { Defaults } from '../session-flags.ts';
import type { StorageTarget } from './backend.ts';

export interface ServerConnection {
  readonly client: Client;
  /** How messages refer to the server. */
  readonly where: string;
  /** Whether the server runs on this command's data folder, so that both see the same folders. */
  readonly sameMachine: boolean;
  /** Whether the server uses this command's storage, which can then be read directly. */
  readonly sameStorage: boolean;
}

/** Undefined if the command works without a server. */
export async function findServer(target: StorageTarget): Promise<ServerConnection | undefined> {
  const { server } = target;
  if (!server) return await findServerOnFolder(target);
  return { client: await connectToUrl(server), where: server.url, sameMachine: false, sameStorage: false };
}

async function findServerOnFolder(target: StorageTarget): Promise<ServerConnection | undefined> {
  const found = await findLocalServer(target);
  return found && { ...found, where: target.dataDir, sameMachine: true };
}

interface ServerAddress {
  readonly url: string;
  readonly token?: string | undefined;
  /** Takes precedence over the token. */
  readonly tokenFile?: string | undefined;
}

async function connectToUrl({ url, token: given, tokenFile }: ServerAddress): Promise<Client> {
  const token = tokenFile === undefined ? given : await readTokenFile(tokenFile);
  if (token !== undefined) return await withConnectTimeout(connect({ url, token }), `The server at ${url}`);
  throw new UsageError(`The server at ${url} needs a token.`, 'Give --token-file, or set CELLA_TOKEN.');
}

async function readTokenFile(file: string): Promise<string> {
  const { text, stats } = await readWithStats(file).catch((error: Error) => {
    throw new UsageError(`The token cannot be read: ${error.message}.`, 'Set --token-file to a file with a token.');
  });
  // Like ssh for keys. Files of other users, such as mounted secrets, are not checked.
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

/** Undefined for the server on the data folder. Flags take precedence over variables. */
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

/** Precedence: the file named by a flag, then the token variable, then the file named elsewhere. */
function selectToken({ tokenFile }: ServerFlags, { serverToken, serverTokenFile }: Defaults) {
  if (tokenFile !== undefined) return { tokenFile };
  return serverToken === undefined ? { tokenFile: serverTokenFile } : { token: serverToken };
}

/** Finds a session by id or agent key. */
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
