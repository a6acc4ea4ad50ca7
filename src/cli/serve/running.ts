/** The server on a data folder as a command finds it: it answers, it is there and silent, or there is none. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CellaError, type Client, connect } from '../../client/index.ts';
import type { FolderWatch, Holder } from '../context.ts';

/** A process that is stopped takes a connection, and never answers. */
const PATIENCE_MS = 3000;

export type Running =
  | { readonly kind: 'answers'; readonly client: Client }
  /** A process has the folder, and nobody answers at its socket: it starts, ends, or hangs. */
  | { readonly kind: 'silent'; readonly holder: Holder }
  /** `left`: the last one ended so that it could not tidy up. */
  | { readonly kind: 'none'; readonly left: boolean };

/** A file that tells of a server proves nothing, for its process may have ended: only an answer or the lock does. */
export async function findRunning(dataDir: string, watch: FolderWatch): Promise<Running> {
  const socket = join(dataDir, 'daemon.sock');
  try {
    return { kind: 'answers', client: await within(PATIENCE_MS, connect({ socket }), socket) };
  } catch (error) {
    if (!(error instanceof CellaError && error.code === 'DAEMON_UNREACHABLE')) throw error;
    const holder = await watch.holder();
    if (holder) return { kind: 'silent', holder };
    return { kind: 'none', left: existsSync(join(dataDir, 'daemon.json')) };
  }
}

async function within<T>(ms: number, answer: Promise<T>, where: string): Promise<T> {
  const late = Promise.withResolvers<never>();
  const silent = () => late.reject(new CellaError('DAEMON_UNREACHABLE', `Nobody answers at ${where}.`));
  const timer = setTimeout(silent, ms);
  answer.catch(() => {}); // too late for anybody
  return await Promise.race([answer, late.promise]).finally(() => clearTimeout(timer));
}

export function noneText(dataDir: string, { left }: { readonly left: boolean }): string {
  const before = left ? ' The last one ended without tidying up, which does no harm.' : '';
  return `No server runs on ${dataDir}.${before}`;
}
