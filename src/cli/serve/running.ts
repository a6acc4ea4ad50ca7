/** The server on a data folder as a command finds it: it answers, it is there and silent, or there is none. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CellaError, type Client, connect } from '../../client/index.ts';
import { isStopped, withTimeout } from '../../lib/deadline.ts';
import { SERVER_FILE, SOCKET_FILE } from '../../protocol/enums.ts';
import type { FolderWatch, ServerLockHolder } from '../context.ts';

/** After the first, one that somebody has stopped is told as such; one that is busy has the second. */
const PROBE_TIMEOUT_MS = 3000;
const ANSWER_TIMEOUT_MS = 15_000;

export type Running =
  | { readonly kind: 'answers'; readonly client: Client }
  /** A process has the folder, and nobody answers at its socket: it starts, ends, or hangs. */
  | { readonly kind: 'silent'; readonly holder: ServerLockHolder }
  /** `left`: the last one ended so that it could not tidy up. */
  | { readonly kind: 'none'; readonly left: boolean };

/** A file that tells of a server proves nothing, for its process may have ended: only an answer or the lock does. */
export async function findRunning(dataDir: string, watch: FolderWatch): Promise<Running> {
  const socket = join(dataDir, SOCKET_FILE);
  try {
    return { kind: 'answers', client: await answerOf(connect({ socket }), socket, watch) };
  } catch (error) {
    if (!(error instanceof CellaError && error.code === 'DAEMON_UNREACHABLE')) throw error;
    const holder = await watch.holder();
    if (holder) return { kind: 'silent', holder };
    return { kind: 'none', left: existsSync(join(dataDir, SERVER_FILE)) };
  }
}

/** `DAEMON_UNREACHABLE` where none comes. */
export async function answerOf(
  connecting: Promise<Client>,
  socket: string,
  watch: Pick<FolderWatch, 'holder'>,
): Promise<Client> {
  const late = () => new CellaError('DAEMON_UNREACHABLE', `Nobody answers at ${socket}.`);
  return await withTimeout(connecting, PROBE_TIMEOUT_MS, late).catch(async (error) => {
    const holder = await watch.holder();
    if (!holder || isStopped(holder.pid)) throw error;
    return await withTimeout(connecting, ANSWER_TIMEOUT_MS, late);
  });
}

export function noneText(dataDir: string, { left }: { readonly left: boolean }): string {
  const before = left ? ' The last one ended without tidying up, which does no harm.' : '';
  return `No server runs on ${dataDir}.${before}`;
}
