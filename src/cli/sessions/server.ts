/** Which server a command line means, and the session there that it names. */

import { join } from 'node:path';
import { type Client, connect } from '../../client/index.ts';
import { SOCKET_FILE } from '../../protocol/daemon-files.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionInfo } from '../../protocol/http/sessions.ts';
import type { Defaults } from '../arguments.ts';
import { UsageError } from '../exit.ts';
import { tokenIn } from '../server/token.ts';
import { dataDirOf } from '../storage-flags.ts';

export interface ServerFlags {
  readonly url?: string;
  readonly tokenFile?: string;
  readonly data?: string;
}

/** Undefined for the server on the data folder. One that is named by hand is meant, whatever the variables say. */
export function urlOf(flags: ServerFlags, defaults: Defaults): string | undefined {
  return flags.url ?? (flags.data === undefined ? defaults.serverUrl : undefined);
}

export async function connectTo(flags: ServerFlags, defaults: Defaults): Promise<Client> {
  const url = urlOf(flags, defaults);
  if (url === undefined) return await onFolder(dataDirOf(flags, defaults));
  const token = await tokenOf(flags, defaults);
  if (token !== undefined) return await connect({ url, token });
  throw new UsageError(`The server at ${url} needs a token.`, 'Give --token-file, or set CELLA_TOKEN.');
}

async function onFolder(dataDir: string): Promise<Client> {
  try {
    return await connect({ socket: join(dataDir, SOCKET_FILE) });
  } catch (error) {
    if (!(error instanceof CellaError) || error.details.refused !== true) throw error;
    throw new CellaError('DAEMON_UNREACHABLE', `No server runs on ${dataDir}.`, {
      cause: error,
      details: error.details,
      advice: 'Start one with `cella serve`, or name another with --url or CELLA_URL.',
    });
  }
}

/** A file that is named by hand, else the variable, else a file that something else names. */
async function tokenOf({ tokenFile }: ServerFlags, defaults: Defaults): Promise<string | undefined> {
  if (tokenFile !== undefined) return await tokenIn(tokenFile);
  const { serverToken, serverTokenFile } = defaults;
  return serverToken ?? (serverTokenFile === undefined ? undefined : await tokenIn(serverTokenFile));
}

/** By its id, or by its agent key. */
export async function findSession(client: Client, name: string): Promise<SessionInfo> {
  if (/^ses_[0-9a-z]{16}$/.test(name)) return await client.sessions.get(name);
  const { sessions } = await client.sessions.list({ agentKey: name, limit: 100 });
  const own = sessions.filter(({ ownerId }) => ownerId === client.me.userId);
  const [first, second] = own.length > 0 ? own : sessions;
  if (!first) {
    throw new UsageError(
      `There is no session ${JSON.stringify(name)}.`,
      '`cella sessions list` shows those there are.',
    );
  }
  if (!second) return first;
  throw new UsageError(`Several sessions are called ${JSON.stringify(name)}.`, 'Name one by its id.');
}
