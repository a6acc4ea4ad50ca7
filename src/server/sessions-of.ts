/** All sessions of one user, oldest first. */

import type { SessionInfo, SessionQuery } from '../protocol/session-info.ts';
import type { SessionManager } from './sessions/session-types.ts';

const PAGE = 1000;

export async function sessionsOf(host: SessionManager, ownerId: string): Promise<SessionInfo[]> {
  const sessions: SessionInfo[] = [];
  for await (const session of all(host, { ownerId })) sessions.push(session);
  return sessions;
}

/** Those of one user, and what was forked from them, which works in their workspaces; each comes after what it was forked from. */
export async function sessionsWithForks(host: SessionManager, ownerId: string): Promise<SessionInfo[]> {
  const sessions = new Map((await sessionsOf(host, ownerId)).map((session) => [session.id, session]));
  // It grows while it is gone through.
  for (const [id] of sessions) for (const fork of await host.forksOf(id)) sessions.set(fork.id, fork);
  return [...sessions.values()].toSorted((one, other) => (one.id < other.id ? -1 : 1));
}

async function* all(host: SessionManager, query: SessionQuery): AsyncGenerator<SessionInfo, void, undefined> {
  let cursor: string | undefined;
  do {
    const page = await host.list({ ...query, limit: PAGE, ...(cursor === undefined ? {} : { cursor }) });
    yield* page.sessions;
    cursor = page.next;
  } while (cursor !== undefined);
}
