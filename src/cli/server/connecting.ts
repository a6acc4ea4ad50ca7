/** The two ways to a server that every command has: by its address and a token, or by the socket in its data folder. */

import { lstat } from 'node:fs/promises';
import { connect as connectSocket } from 'node:net';
import { join } from 'node:path';
import { type Client, connect } from '../../client/index.ts';
import { withTimeout } from '../../lib/deadline.ts';
import { SOCKET_FILE } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import { UsageError } from '../exit.ts';
import { tokenIn } from './token.ts';

const PATIENCE_MS = 15_000;

export interface ServerAddress {
  readonly url: string;
  readonly token?: string | undefined;
  /** It wins over the token. */
  readonly tokenFile?: string | undefined;
}

export async function connectAt({ url, token: given, tokenFile }: ServerAddress): Promise<Client> {
  const token = tokenFile === undefined ? given : await tokenIn(tokenFile);
  if (token !== undefined) return await answerOf(connect({ url, token }), `The server at ${url}`);
  throw new UsageError(`The server at ${url} needs a token.`, 'Give --token-file, or set CELLA_TOKEN.');
}

/** Undefined where there is none. Whether a server still listens at it is another question. */
export async function socketOn(dataDir: string): Promise<string | undefined> {
  const socket = join(dataDir, SOCKET_FILE);
  const facts = await lstat(socket).catch(() => undefined); // none was ever started there
  if (!facts?.isSocket()) return undefined;
  if (!process.getuid || facts.uid === process.getuid()) return socket;
  if (!(await mayLive(socket))) return undefined;
  throw new UsageError(
    `The server on ${dataDir} belongs to another user.`,
    'Ask it by its address, with --url and a token of yours, or name another folder with --data.',
  );
}

/** Undefined where an earlier server has left it there. One that hangs is no reason to work without it: it has its agents. */
export async function connectOn(socket: string, dataDir: string): Promise<Client | undefined> {
  try {
    return await answerOf(connect({ socket }), `The server on ${dataDir}`);
  } catch (error) {
    if (error instanceof CellaError && error.code === 'DAEMON_UNREACHABLE' && error.details.refused === true) {
      return undefined;
    }
    throw error;
  }
}

async function answerOf(connecting: Promise<Client>, server: string): Promise<Client> {
  const message = `${server} does not answer: it has said nothing for ${PATIENCE_MS / 1000} s.`;
  return await withTimeout(connecting, PATIENCE_MS, () => new CellaError('DAEMON_UNREACHABLE', message));
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
