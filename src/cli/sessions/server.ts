/** Which server a command line means, and the session there that it names. */

import { join } from 'node:path';
import { type Client, connect } from '../../client/index.ts';
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

/** A data folder that is named by hand is meant, whatever the variables say. */
export async function connectTo(flags: ServerFlags, defaults: Defaults): Promise<Client> {
  const url = flags.url ?? (flags.data === undefined ? defaults.serverUrl : undefined);
  if (url === undefined) return await connect({ socket: join(dataDirOf(flags, defaults), 'daemon.sock') });
  const token = flags.tokenFile === undefined ? defaults.serverToken : await tokenIn(flags.tokenFile);
  if (token !== undefined) return await connect({ url, token });
  throw new UsageError(`The server at ${url} needs a token.`, 'Give --token-file, or set CELLA_TOKEN.');
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
