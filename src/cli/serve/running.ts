/** The server on a data folder as a command finds it: it answers, it is there and silent, or there is none. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CellaError, type Client, connect } from '../../client/index.ts';
import { FACTS_FILE, SOCKET_FILE } from '../../protocol/daemon-files.ts';
import type { FolderWatch, Holder } from '../context.ts';
import { inTime } from '../server/in-time.ts';

const PATIENCE_MS = 3000;

export type Running =
  | { readonly kind: 'answers'; readonly client: Client }
  /** A process has the folder, and nobody answers at its socket: it starts, ends, or hangs. */
  | { readonly kind: 'silent'; readonly holder: Holder }
  /** `left`: the last one ended so that it could not tidy up. */
  | { readonly kind: 'none'; readonly left: boolean };

/** A file that tells of a server proves nothing, for its process may have ended: only an answer or the lock does. */
export async function findRunning(dataDir: string, watch: FolderWatch): Promise<Running> {
  const socket = join(dataDir, SOCKET_FILE);
  try {
    return { kind: 'answers', client: await inTime(connect({ socket }), PATIENCE_MS, `Nobody answers at ${socket}.`) };
  } catch (error) {
    if (!(error instanceof CellaError && error.code === 'DAEMON_UNREACHABLE')) throw error;
    const holder = await watch.holder();
    if (holder) return { kind: 'silent', holder };
    return { kind: 'none', left: existsSync(join(dataDir, FACTS_FILE)) };
  }
}

export function noneText(dataDir: string, { left }: { readonly left: boolean }): string {
  const before = left ? ' The last one ended without tidying up, which does no harm.' : '';
  return `No server runs on ${dataDir}.${before}`;
}
