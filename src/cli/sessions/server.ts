/** Which server a command line means, and the session there that it names. */

import type { Client } from '../../client/index.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import type { Defaults } from '../arguments.ts';
import { UsageError } from '../exit.ts';
import { connectAt, connectOn, socketOn } from '../server/connecting.ts';
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
  return await connectAt({ url, ...tokenOf(flags, defaults) });
}

async function onFolder(dataDir: string): Promise<Client> {
  const socket = await socketOn(dataDir);
  const client = socket === undefined ? undefined : await connectOn(socket, dataDir);
  if (client) return client;
  throw new CellaError('DAEMON_UNREACHABLE', `No server runs on ${dataDir}.`, {
    details: { refused: true },
    advice: 'Start one with `cella serve`, or name another with --url or CELLA_URL.',
  });
}

/** A file that is named by hand, else the variable, else a file that something else names. */
function tokenOf({ tokenFile }: ServerFlags, { serverToken, serverTokenFile }: Defaults) {
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
    throw new UsageError(
      `There is no session ${JSON.stringify(name)}.`,
      '`cella sessions list` shows those there are.',
    );
  }
  if (!second) return first;
  throw new UsageError(`Several sessions are called ${JSON.stringify(name)}.`, 'Name one by its id.');
}
