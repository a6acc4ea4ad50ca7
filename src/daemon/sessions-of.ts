/** All sessions of one user, oldest first. */

import type { SessionInfo } from '../protocol/http/sessions.ts';
import type { SessionHost } from './sessions/contract.ts';

const PAGE = 1000;

export async function sessionsOf(host: SessionHost, ownerId: string): Promise<SessionInfo[]> {
  const all: SessionInfo[] = [];
  let cursor: string | undefined;
  do {
    const page = await host.list({ ownerId, limit: PAGE, ...(cursor === undefined ? {} : { cursor }) });
    all.push(...page.sessions);
    cursor = page.next;
  } while (cursor !== undefined);
  return all;
}
