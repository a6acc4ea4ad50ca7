/** All sessions of one user, oldest first, and how many there are. */

import type { SessionInfo, SessionQuery } from '../protocol/http/sessions.ts';
import type { SessionHost } from './sessions/contract.ts';

const PAGE = 1000;

export async function sessionsOf(host: SessionHost, ownerId: string): Promise<SessionInfo[]> {
  const sessions: SessionInfo[] = [];
  for await (const session of all(host, { ownerId })) sessions.push(session);
  return sessions;
}

/** Those of one user, and what others have forked from them, which works in their workspaces; forks come later. */
export async function sessionsWithForks(host: SessionHost, ownerId: string): Promise<SessionInfo[]> {
  const sessions: SessionInfo[] = [];
  const ids = new Set<string>();
  for await (const session of all(host, {})) {
    if (session.ownerId !== ownerId && !ids.has(session.forkOf ?? '')) continue;
    ids.add(session.id);
    sessions.push(session);
  }
  return sessions;
}

/** Of all users together. */
export async function countSessions(host: SessionHost): Promise<number> {
  let count = 0;
  for await (const _session of all(host, {})) count += 1;
  return count;
}

async function* all(host: SessionHost, query: SessionQuery): AsyncGenerator<SessionInfo, void, undefined> {
  let cursor: string | undefined;
  do {
    const page = await host.list({ ...query, limit: PAGE, ...(cursor === undefined ? {} : { cursor }) });
    yield* page.sessions;
    cursor = page.next;
  } while (cursor !== undefined);
}
